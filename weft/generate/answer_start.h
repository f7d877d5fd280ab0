// The first word of an answer, which stands alone. Not installed.
#pragma once

#include <cstdint>
#include <string_view>

#include "weft/io/tokenizer/tokenizer.h"

namespace weft {

// A tokenizer whose words begin with a space gives the first one without it, as transformers decodes an answer. The space is not a part of
// the text: stop strings do not see it either.
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
