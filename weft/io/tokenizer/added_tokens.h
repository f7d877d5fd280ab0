// Tokens that are matched in the text before any other step: the leftmost match first, of those the longest.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/tokenizer/regex.h"

namespace weft {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // matches only without a letter, digit or mark beside it
  bool lstrip = false;       // consumes the white space on its left
  bool rstrip = false;
  bool normalized = false;  // matched after normalisation
  bool special = false;
};

class AddedTokens {
 public:
  AddedTokens();

  // `spelling` is the text to match: the content, or its normal form.
  void add(const AddedToken& token, std::string_view spelling);
  bool empty() const { return tokens_.empty(); }

  // A part of the text: a token (id) or the text between tokens (-1). Empty parts are left out unless they are tokens.
  struct Part {
    int32_t id;
    size_t begin, end;
  };
  void find(std::string_view text, std::vector<Part>& parts, Regex::Scratch& scratch) const;

 private:
  struct Node {
    int32_t token = -1;                             // index into tokens_
    std::vector<std::pair<uint8_t, int32_t>> next;  // sorted by byte
  };
  // The longest token that starts at `from`; nullptr if none does.
  const AddedToken* longest_at(std::string_view text, size_t from, size_t& end) const;
  bool stands_alone(std::string_view text, Match match, Regex::Scratch& scratch) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::array<int32_t, 256> first_;  // the root's children
  Regex word_;                      // matches one character of a word
};

}  // namespace weft
