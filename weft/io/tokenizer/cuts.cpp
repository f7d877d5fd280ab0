#include "weft/io/tokenizer/cuts.h"

#include <algorithm>
#include <optional>

#include "weft/io/tokenizer/patterns.h"
#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr std::string_view kPatterns[] = {
    kGpt2Pattern,
    kLlama3Pattern,
    // Qwen 2 and 3
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // GPT-4o
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};

bool is_letter_or_digit(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether the character that ends before `end` is not white space.
bool ends_in_other(std::string_view text, size_t end) {
  if (end == 0) return false;
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && (text[begin] & 0xc0) == 0x80) --begin;
  const Utf8Step step = utf8_step(text.substr(begin, end - begin));
  return step.valid && begin + step.length == end && !is_white_space(step.code);
}

bool begins_a_line(std::string_view text, size_t at) {
  if (uint8_t(text[at]) < 0x80) return is_letter_or_digit(text[at]);
  const Utf8Step step = utf8_step(text.substr(at));
  return step.valid && !is_white_space(step.code);
}

}  // namespace

bool splits_at_cuts(std::string_view pattern) { return std::ranges::find(kPatterns, pattern) != std::end(kPatterns); }

bool is_cut(std::string_view text, size_t at) {
  if (at == 0 || at >= text.size()) return false;
  if (text[at] == ' ') return ends_in_other(text, at);
  return text[at - 1] == '\n' && ends_in_other(text, at - 1) && begins_a_line(text, at);
}

size_t last_cut(std::string_view text, size_t most) {
  for (size_t at = std::min(most, text.size()); at > 0; --at)
    if (is_cut(text, at)) return at;
  return 0;
}

namespace {

bool keeps_byte_level_cuts(const Normalizer& normalizer) {
  return std::ranges::all_of(normalizer.steps(), [](const NormalizerStep& step) {
    const auto* form = std::get_if<NormalForm>(&step);
    return form && (*form == NormalForm::nfc || *form == NormalForm::nfd);
  });
}

bool is_one_character(std::string_view text) { return !text.empty() && utf8_step(text).length == text.size(); }

// The mark that replaces every space; "" if spaces stay; nullopt for steps that look at more than one character.
std::optional<std::string> mark_of(const Normalizer& normalizer) {
  std::string mark;
  for (const NormalizerStep& step : normalizer.steps()) {
    if (std::holds_alternative<Prepend>(step)) continue;
    const auto* replacement = std::get_if<Replacement>(&step);
    if (!replacement || replacement->literal() != " " || !is_one_character(replacement->content()) || !mark.empty()) return std::nullopt;
    mark = replacement->content();
  }
  return mark == " " ? "" : mark;
}

// The text with a space for each mark.
std::string with_spaces(std::string_view text, std::string_view mark) {
  if (mark.empty()) return std::string(text);
  std::string out;
  for (size_t begin = 0;;) {
    const size_t end = text.find(mark, begin);
    out.append(text.substr(begin, end - begin));
    if (end == text.npos) return out;
    out.push_back(' ');
    begin = end + mark.size();
  }
}

}  // namespace

Cuts::Cuts(const Normalizer& normalizer, const PreTokenizer& pre_tokenizer, const Bpe& bpe) {
  if (pre_tokenizer.byte_level()) {
    if (keeps_byte_level_cuts(normalizer) && pre_tokenizer.splits_at_cuts()) kind_ = Kind::byte_level;
    return;
  }
  const auto mark = mark_of(normalizer);
  if (!mark) return;
  mark_ = *mark;
  for (const PreTokenizer::Step& step : pre_tokenizer.steps()) {
    if (const auto* marks = std::get_if<Metaspace>(&step)) {
      if (!mark_.empty() && mark_ != marks->mark) return;
      if (marks->mark != " ") mark_ = marks->mark;
      splits_at_marks_ |= marks->split;
    } else if (mark_.empty() || !std::get<Splitter>(step).only_spaces) {
      return;  // a splitter at spaces does nothing where there are none
    }
  }
  splits_elsewhere_ = bpe.splits();
  if (splits_at_marks_ || splits_elsewhere_) kind_ = Kind::characters;
}

void Cuts::add(const AddedToken& token, std::string_view spelling) {
  if (kind_ == Kind::none || spelling.empty()) return;
  if (kind_ == Kind::byte_level) return add_to_byte_level(token, spelling);
  for (const std::string& text : {with_spaces(token.content, mark_), with_spaces(spelling, mark_)}) {
    for (size_t at = utf8_step(text).length, before = 0; at < text.size();
         before = at, at += utf8_step(std::string_view(text).substr(at)).length)
      within_tokens_.add(utf8_step(std::string_view(text).substr(before)).code, utf8_step(std::string_view(text).substr(at)).code);
    beside_[text] = true;
    lengths_.push_back(text.size());
  }
  std::ranges::sort(lengths_);
  lengths_.erase(std::ranges::unique(lengths_).begin(), lengths_.end());
}

// A place is before a space, where lstrip and single_word see the same in both parts, or after a single newline.
void Cuts::add_to_byte_level(const AddedToken& token, std::string_view spelling) {
  const auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  for (size_t i = 1; i < spelling.size(); ++i)
    if ((spelling[i] == ' ' && !space(spelling[i - 1])) || (spelling[i - 1] == '\n' && !space(spelling[i]))) kind_ = Kind::none;
  if (token.normalized && (token.lstrip || token.rstrip || token.single_word)) kind_ = Kind::none;  // the text beside it may change
  if (token.lstrip) after_newlines_ = false;
  if (!token.rstrip) return;
  beside_[std::string(spelling)] = true;
  if (std::ranges::find(lengths_, spelling.size()) == lengths_.end()) lengths_.push_back(spelling.size());
}

bool Cuts::beside_token(std::string_view text, size_t at) const {
  if (lengths_.empty()) return false;
  // A mark has at most four bytes, so these have at least as many characters as the longest token.
  const size_t reach = 4 * std::ranges::max(lengths_);
  const size_t from = at > reach ? at - reach : 0;
  const std::string before = with_spaces(text.substr(from, at - from), mark_), after = with_spaces(text.substr(at, reach), mark_);
  for (const size_t length : lengths_) {
    if (length <= before.size() && beside_.contains(std::string_view(before).substr(before.size() - length))) return true;
    if (length <= after.size() && beside_.contains(std::string_view(after).substr(0, length))) return true;
  }
  return false;
}

bool Cuts::joined(char32_t left, char32_t right, const Bpe& bpe) const {
  const char32_t mark = mark_.empty() ? U' ' : utf8_step(mark_).code;
  const auto marked = [&](char32_t c) { return c == ' ' ? mark : c; };
  const auto spaced = [&](char32_t c) { return c == mark ? U' ' : c; };
  if (within_tokens_.contains(spaced(left), spaced(right))) return true;
  if (splits_at_marks_ && marked(right) == mark) return false;
  return !splits_elsewhere_ || bpe.may_join(marked(left), marked(right));
}

bool Cuts::at(std::string_view text, size_t at, const Bpe& bpe) const {
  if (kind_ == Kind::none || at == 0 || at >= text.size()) return false;
  if (kind_ == Kind::byte_level) return is_cut(text, at) && (after_newlines_ || text[at] == ' ') && !beside_token(text, at);
  if ((text[at] & 0xc0) == 0x80 || !ends_in_other(text, at)) return false;
  const Utf8Step left = utf8_step(last_character(text, at)), right = utf8_step(text.substr(at));
  if (!right.valid || (right.code != ' ' && is_white_space(right.code))) return false;
  return !joined(left.code, right.code, bpe) && !beside_token(text, at);
}

size_t Cuts::last(std::string_view text, size_t most, const Bpe& bpe) const {
  for (size_t place = kind_ == Kind::none ? 0 : std::min(most, text.size()); place > 0; --place)
    if (at(text, place, bpe)) return place;
  return 0;
}

}  // namespace weft
