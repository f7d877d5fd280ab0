// Decodes the first word of an answer. Not installed.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/io/tokenizer/tokenizer.h"

namespace weft {

// Drops the space before the first word if the tokenizer's words begin with one, as transformers does when it decodes an answer. Stop
// strings are matched without that space.
class AnswerStart {
 public:
  // The tokenizer must outlive it.
  explicit AnswerStart(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The bytes that the next token of the answer adds to its text.
  std::string_view bytes_of(int32_t id);

 private:
  const Tokenizer* tokenizer_;
  bool over_ = false;
};

}  // namespace weft
