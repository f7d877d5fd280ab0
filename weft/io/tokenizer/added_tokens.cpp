#include "weft/io/tokenizer/added_tokens.h"

#include <algorithm>

#include "weft/io/tokenizer/utf8.h"

namespace weft {
namespace {

// Unicode's word character (UTS #18).
constexpr const char* kWordClass = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]";

}  // namespace

AddedTokens::AddedTokens() : word_(Regex::from_pattern("added_tokens", kWordClass)) { first_.fill(-1); }

void AddedTokens::add(const AddedToken& token, std::string_view spelling) {
  if (spelling.empty()) return;
  int32_t node = 0;
  for (const char c : spelling) {
    const auto byte = uint8_t(c);
    auto& next = nodes_[size_t(node)].next;
    auto place = std::lower_bound(next.begin(), next.end(), std::pair(byte, int32_t(0)));
    if (place == next.end() || place->first != byte) {
      const auto child = int32_t(nodes_.size());
      next.insert(place, {byte, child});
      if (node == 0) first_[byte] = child;
      nodes_.emplace_back();
      node = child;
    } else {
      node = place->second;
    }
  }
  if (nodes_[size_t(node)].token < 0) {
    nodes_[size_t(node)].token = int32_t(tokens_.size());
    tokens_.push_back(token);
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text, size_t from, size_t& end) const {
  const AddedToken* longest = nullptr;
  int32_t node = first_[uint8_t(text[from])];
  for (size_t at = from + 1; node >= 0; ++at) {
    const Node& here = nodes_[size_t(node)];
    if (here.token >= 0) {
      longest = &tokens_[size_t(here.token)];
      end = at;
    }
    if (at == text.size()) break;
    const auto next = std::lower_bound(here.next.begin(), here.next.end(), std::pair(uint8_t(text[at]), int32_t(0)));
    node = next != here.next.end() && next->first == uint8_t(text[at]) ? next->second : -1;
  }
  return longest;
}

namespace {

bool is_space(std::string_view character) { return !character.empty() && is_white_space(utf8_step(character).code); }

}  // namespace

bool AddedTokens::stands_alone(std::string_view text, Match match, Regex::Scratch& scratch) const {
  return !word_.find(last_character(text, match.begin), 0, scratch) && !word_.find(first_character(text, match.end), 0, scratch);
}

void AddedTokens::find(std::string_view text, std::vector<Part>& parts, Regex::Scratch& scratch) const {
  parts.clear();
  size_t done = 0, at = 0;
  while (at < text.size() && !tokens_.empty()) {
    size_t end = 0;
    const AddedToken* token = longest_at(text, at, end);
    if (!token) {
      ++at;
      continue;
    }
    Match match{at, end};
    at = end;
    if (token->single_word && !stands_alone(text, match, scratch)) continue;
    if (token->lstrip) {
      while (match.begin > done && is_space(last_character(text, match.begin))) match.begin -= last_character(text, match.begin).size();
      match.begin = std::max(match.begin, done);  // the token before may have taken it
    }
    if (token->rstrip)
      while (is_space(first_character(text, match.end))) match.end += first_character(text, match.end).size();
    if (done < match.begin) parts.push_back({-1, done, match.begin});
    if (match.begin < match.end) parts.push_back({token->id, match.begin, match.end});
    done = match.end;
  }
  if (done < text.size()) parts.push_back({-1, done, text.size()});
}

}  // namespace weft
