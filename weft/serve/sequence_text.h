// Decodes the text of one continuation token by token: omits special tokens and stops at a stop string.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "weft/generate/answer_start.h"
#include "weft/generate/text_stream.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft::serve {

class SequenceText {
 public:
  // Without a tokenizer the text is empty. `answer`: the text starts an answer (weft/generate/answer_start.h).
  SequenceText(const Tokenizer* tokenizer, std::vector<std::string> stop, bool answer);

  std::string push(int32_t id);                      // adds a token; returns the text that is final now
  std::string finish() { return stream_.finish(); }  // returns the rest
  bool stopped() const { return stream_.stopped(); }

 private:
  const Tokenizer* tokenizer_;
  TextStream stream_;
  std::optional<AnswerStart> start_;
};

}  // namespace weft::serve
