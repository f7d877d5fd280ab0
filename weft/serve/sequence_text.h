// Decodes the text of one continuation token by token: omits special tokens and stops at a stop string.
#pragma once

#include <string>
#include <vector>

#include "weft/generate/text_stream.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft::serve {

class SequenceText {
 public:
  // Without a tokenizer the text is empty. `answer`: drops the space that some tokenizers put before the first word, as transformers does
  // when it decodes an answer; stop strings are matched without it.
  SequenceText(const Tokenizer* tokenizer, std::vector<std::string> stop, bool answer);

  std::string push(int32_t id);                      // adds a token; returns the text that is final now
  std::string finish() { return stream_.finish(); }  // returns the rest
  bool stopped() const { return stream_.stopped(); }

 private:
  const Tokenizer* tokenizer_;
  TextStream stream_;
  bool at_start_;
};

}  // namespace weft::serve
