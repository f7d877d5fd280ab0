// "text_offset" of a completion: where each token begins in the text, in characters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/io/tokenizer/tokenizer.h"

namespace weft::serve {

// The characters of a text that grows by the bytes of tokens. A character counts with its first byte; bytes that are not UTF-8 count as
// the U+FFFD that stand for them (weft/generate/text_stream.h).
class TextLength {
 public:
  TextLength() = default;
  explicit TextLength(std::string_view text) { add(text); }
  void add(std::string_view bytes);
  // Adds what a token shows: nothing if it is special.
  void add_token(const Tokenizer* tokenizer, int32_t id);
  int64_t characters() const { return whole_ + int64_t(!cut_.empty()); }

 private:
  int64_t whole_ = 0;
  std::string cut_;  // the beginning of a character
};

// The offsets of a prompt's tokens in `text`, of which they were made or which was made of them. The two differ where a tokenizer puts a
// space before the first word, adds BOS or normalizes; special tokens may be spelled out in the text.
std::vector<int64_t> prompt_offsets(const Tokenizer* tokenizer, std::span<const int32_t> ids, std::string_view text);

}  // namespace weft::serve
