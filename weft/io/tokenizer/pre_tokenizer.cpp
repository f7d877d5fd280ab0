#include "weft/io/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

// Splits the whole text into spans, each marked as delimiter or not.
void find_spans(std::string_view text, const Splitter& splitter, Regex::Scratch& scratch, std::vector<std::pair<Match, bool>>& spans) {
  spans.clear();
  size_t done = 0;
  for_each_match(splitter.delimiter, text, scratch, [&](Match match) {
    if (done != match.begin) spans.push_back({{done, match.begin}, splitter.invert});
    spans.push_back({match, !splitter.invert});
    done = match.end;
  });
  if (done != text.size()) spans.push_back({{done, text.size()}, splitter.invert});
}

// Merges a delimiter with the piece before it, unless that is a delimiter too.
void merge_with_previous(const std::vector<std::pair<Match, bool>>& spans, std::vector<Match>& pieces) {
  bool previous = false;
  for (const auto& [span, delimits] : spans) {
    if (delimits && !previous && !pieces.empty())
      pieces.back().end = span.end;
    else
      pieces.push_back(span);
    previous = delimits;
  }
}

void merge_with_next(const std::vector<std::pair<Match, bool>>& spans, std::vector<Match>& pieces) {
  bool previous = false;
  for (auto span = spans.rbegin(); span != spans.rend(); ++span) {
    if (span->second && !previous && !pieces.empty())
      pieces.back().begin = span->first.begin;
    else
      pieces.push_back(span->first);
    previous = span->second;
  }
  std::reverse(pieces.begin(), pieces.end());
}

void merge_alike(const std::vector<std::pair<Match, bool>>& spans, std::vector<Match>& pieces) {
  bool previous = false;
  for (const auto& [span, delimits] : spans) {
    if (delimits == previous && !pieces.empty())
      pieces.back().end = span.end;
    else
      pieces.push_back(span);
    previous = delimits;
  }
}

void cut(const std::vector<std::pair<Match, bool>>& spans, SplitBehavior behavior, std::vector<Match>& pieces) {
  pieces.clear();
  switch (behavior) {
    case SplitBehavior::isolated:
      for (const auto& [span, delimits] : spans) pieces.push_back(span);
      return;
    case SplitBehavior::removed:
      for (const auto& [span, delimits] : spans)
        if (!delimits) pieces.push_back(span);
      return;
    case SplitBehavior::merged_with_previous: return merge_with_previous(spans, pieces);
    case SplitBehavior::merged_with_next: return merge_with_next(spans, pieces);
    case SplitBehavior::contiguous: return merge_alike(spans, pieces);
  }
}

std::string_view with_space(std::string_view text, std::string& memory) {
  if (text.starts_with(' ')) return text;
  memory.assign(1, ' ').append(text);
  return memory;
}

// The text with marks for spaces, and a mark in front if there is to be one.
void mark_spaces(std::string_view text, const Metaspace& step, Edge edge, std::string& out) {
  out.clear();
  const bool marked = text.starts_with(' ') || text.starts_with(step.mark);
  const bool prepends =
      step.prepend == Metaspace::Prepend::always ? edge != Edge::cut : step.prepend == Metaspace::Prepend::first && edge == Edge::start;
  if (!marked && prepends) out = step.mark;
  size_t done = 0;
  for (size_t at = text.find(' '); at != text.npos; at = text.find(' ', done)) {
    out.append(text, done, at - done).append(step.mark);
    done = at + 1;
  }
  out.append(text, done);
}

}  // namespace

bool PreTokenizer::splits_at_cuts() const {
  bool splits = false;
  for (const Step& step : steps_) {
    const auto* splitter = std::get_if<Splitter>(&step);
    if (!splitter || splitter->at_cuts == AtCuts::unknown || splitter->add_prefix_space) return false;
    splits |= splitter->at_cuts == AtCuts::splits;
  }
  return byte_level_ && splits && !prefix_space_;
}

void PreTokenizer::split(std::string_view text, Edge edge, Scratch& scratch, const Word& word) const {
  scratch.stages.resize(steps_.size() + 1);
  if (!text.empty()) split_from(0, text, edge, scratch, word);
}

void PreTokenizer::split_from(size_t stage, std::string_view text, Edge edge, Scratch& scratch, const Word& word) const {
  Scratch::Stage& own = scratch.stages[stage];
  if (stage == steps_.size()) return word(prefix_space_ && edge != Edge::cut ? with_space(text, own.prefixed) : text);
  if (const auto* marks = std::get_if<Metaspace>(&steps_[stage])) return split_marks(stage, *marks, text, edge, scratch, word);
  const auto& splitter = std::get<Splitter>(steps_[stage]);
  if (splitter.only_spaces && text.find(' ') == text.npos) return split_from(stage + 1, text, edge, scratch, word);  // Gemma's texts
  if (splitter.add_prefix_space && edge != Edge::cut) text = with_space(text, own.prefixed);
  find_spans(text, splitter, scratch.regex, own.spans);
  cut(own.spans, splitter.behavior, own.pieces);
  for (const Match& piece : own.pieces)
    if (piece.begin != piece.end)
      split_from(stage + 1, text.substr(piece.begin, piece.end - piece.begin), piece.begin == 0 ? edge : Edge::inner, scratch, word);
}

// A word starts at each mark.
void PreTokenizer::split_marks(size_t stage, const Metaspace& step, std::string_view text, Edge edge, Scratch& scratch,
                               const Word& word) const {
  std::string& marked = scratch.stages[stage].prefixed;
  mark_spaces(text, step, edge, marked);
  if (!step.split) return split_from(stage + 1, marked, edge, scratch, word);
  const std::string_view all = marked;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end =
        std::min(all.find(step.mark, begin == 0 ? step.mark.size() * all.starts_with(step.mark) : begin + step.mark.size()), all.size());
    split_from(stage + 1, all.substr(begin, end - begin), begin == 0 ? edge : Edge::inner, scratch, word);
    begin = end;
  }
}

}  // namespace weft
