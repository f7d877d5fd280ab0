#include "weft/io/tokenizer/cuts.h"

#include <algorithm>

#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

constexpr std::string_view kPatterns[] = {
    // GPT-2
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    // Llama 3, GPT-4
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // Qwen 2 and 3
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    // GPT-4o
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
};

// Unicode's White_Space.
bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

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

// A token that consumes white space beside it, or depends on its neighbours, depends on the text beyond the cut.
bool allows_cuts(const AddedToken& token, std::string_view spelling) {
  if (token.lstrip || token.rstrip || token.single_word) return false;
  const auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  for (size_t i = 1; i < spelling.size(); ++i)
    if ((spelling[i] == ' ' && !space(spelling[i - 1])) || (spelling[i - 1] == '\n' && !space(spelling[i]))) return false;
  return true;
}

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

}  // namespace weft
