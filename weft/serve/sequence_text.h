// The text of one continuation as its tokens arrive: special tokens are left out, and a stop string ends it.
#pragma once

#include <string>
#include <vector>

#include "weft/generate/text_stream.h"
#include "weft/io/tokenizer/tokenizer.h"

namespace weft::serve {

class SequenceText {
 public:
  // Without a tokenizer there is no text. `answer`: the first word stands alone, so a tokenizer whose words begin with a space gives it as
  // the word without one, as transformers decodes an answer.
  SequenceText(const Tokenizer* tokenizer, std::vector<std::string> stop, bool answer);

  std::string push(int32_t id);  // the text that is certain now
  std::string finish();          // the rest
  bool stopped() const { return stream_.stopped(); }

 private:
  std::string begun(std::string text);

  const Tokenizer* tokenizer_;
  TextStream stream_;
  std::vector<int32_t> first_ids_;
  bool at_start_;
};

}  // namespace weft::serve
