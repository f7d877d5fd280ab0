// "text_offset" of a completion: where each token begins in the text, in characters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/tokenizer/tokenizer.h"

namespace weft::serve {

// Counts the characters of a text that grows by the bytes of tokens. A character counts from its first byte on; bytes that are not UTF-8
// count as the U+FFFD that replace them (weft/generate/text_stream.h).
class TextLength {
 public:
  TextLength() = default;
  explicit TextLength(std::string_view text) { add(text); }
  void add(std::string_view bytes);
  // Adds the text of a token; a special token has none.
  void add_token(const Tokenizer* tokenizer, int32_t id);
  int64_t characters() const { return whole_ + int64_t(!cut_.empty()); }

 private:
  int64_t whole_ = 0;
  std::string cut_;  // the first bytes of an incomplete character
};

// The offsets of a prompt's tokens in `text`, the prompt or its decoded ids. The tokens' bytes and the text differ where a tokenizer puts a
// space before the first word, adds BOS or normalizes, and where special tokens are spelled out.
std::vector<int64_t> prompt_offsets(const Tokenizer* tokenizer, std::span<const int32_t> ids, std::string_view text);

}  // namespace weft::serve
