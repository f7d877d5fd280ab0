#include "weft/evaluate/answers.h"

#include <algorithm>
#include <map>

#include "weft/chat/text.h"

namespace weft {
namespace {

using Words = std::vector<std::u32string>;

bool is_ascii_punctuation(char32_t c) { return (c > 32 && c < 48) || (c > 57 && c < 65) || (c > 90 && c < 97) || (c > 122 && c < 127); }

bool is_word_character(char32_t c) { return chat::is_alphabetic(c) || chat::is_decimal(c) || chat::is_digit(c) || chat::is_numeric(c); }

// Articles that stand between characters which are not of words become a space.
std::u32string without_articles(const std::u32string& text) {
  std::u32string kept;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word_character(text[end])) ++end;
    const std::u32string word = text.substr(at, end - at);
    kept += word == U"a" || word == U"an" || word == U"the" ? U" " : word;
    if (end < text.size()) kept += text[end++];
    at = end;
  }
  return kept;
}

Words words_of(std::string_view answer) {
  std::u32string text = chat::decoded(chat::lower(answer));
  std::erase_if(text, is_ascii_punctuation);
  Words words;
  bool inside = false;
  for (char32_t c : without_articles(text)) {
    const bool space = chat::is_space(c);
    if (!space && !inside) words.emplace_back();
    if (!space) words.back() += c;
    inside = !space;
  }
  return words;
}

double f1_of(const Words& answer, const Words& target) {
  if (answer.empty() || target.empty()) return answer.empty() && target.empty();
  std::map<std::u32string, int64_t> left;
  for (const auto& word : target) ++left[word];
  int64_t same = 0;
  for (const auto& word : answer)
    if (const auto found = left.find(word); found != left.end() && found->second > 0) --found->second, ++same;
  if (same == 0) return 0;
  const double precision = double(same) / double(answer.size()), recall = double(same) / double(target.size());
  return 2 * precision * recall / (precision + recall);
}

}  // namespace

std::string normalised_answer(std::string_view text) {
  std::string joined;
  for (const auto& word : words_of(text)) {
    if (!joined.empty()) joined += ' ';
    joined += chat::encoded(word);
  }
  return joined;
}

double exact_match(std::string_view answer, const std::vector<std::string>& targets) {
  const Words words = words_of(answer);
  return std::any_of(targets.begin(), targets.end(), [&](const std::string& target) { return words_of(target) == words; });
}

double word_f1(std::string_view answer, const std::vector<std::string>& targets) {
  double best = 0;
  for (const std::string& target : targets) best = std::max(best, f1_of(words_of(answer), words_of(target)));
  return best;
}

}  // namespace weft
