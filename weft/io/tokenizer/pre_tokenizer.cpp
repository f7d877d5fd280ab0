#include "weft/io/tokenizer/pre_tokenizer.h"

#include <algorithm>

#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

// Splits the whole text into spans, each marked as delimiter or not.
void find_spans(std::string_view text, const Splitter& splitter, Regex::Scratch& scratch, std::vector<std::pair<Match, bool>>& spans) {
  spans.clear();
  size_t done = 0, from = 0;
  bool after_match = false;
  while (from <= text.size()) {
    const auto found = splitter.delimiter.find(text, from, scratch);
    if (!found) break;
    if (found->begin == found->end && after_match && found->end == done) {  // an empty match right after a match: search further
      if (from >= text.size()) break;
      from += utf8_step(text.substr(from)).length;
      continue;
    }
    if (done != found->begin) spans.push_back({{done, found->begin}, splitter.invert});
    spans.push_back({*found, !splitter.invert});
    done = from = found->end;
    after_match = true;
  }
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

}  // namespace

bool PreTokenizer::allows_cuts() const {
  const auto known = [](const Splitter& s) { return s.at_cuts != AtCuts::unknown && !s.add_prefix_space; };
  const auto splits = [](const Splitter& s) { return s.at_cuts == AtCuts::splits; };
  return !prefix_space_ && std::ranges::all_of(splitters_, known) && std::ranges::any_of(splitters_, splits);
}

void PreTokenizer::split(std::string_view text, Scratch& scratch, const Word& word) const {
  scratch.stages.resize(splitters_.size() + 1);
  if (!text.empty()) split_from(0, text, scratch, word);
}

void PreTokenizer::split_from(size_t stage, std::string_view text, Scratch& scratch, const Word& word) const {
  Scratch::Stage& own = scratch.stages[stage];
  if (stage == splitters_.size()) return word(prefix_space_ ? with_space(text, own.prefixed) : text);
  const Splitter& splitter = splitters_[stage];
  if (splitter.add_prefix_space) text = with_space(text, own.prefixed);
  find_spans(text, splitter, scratch.regex, own.spans);
  cut(own.spans, splitter.behavior, own.pieces);
  for (const Match& piece : own.pieces)
    if (piece.begin != piece.end) split_from(stage + 1, text.substr(piece.begin, piece.end - piece.begin), scratch, word);
}

}  // namespace weft
