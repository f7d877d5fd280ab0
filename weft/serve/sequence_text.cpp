#include "weft/serve/sequence_text.h"

namespace weft::serve {

SequenceText::SequenceText(const Tokenizer* tokenizer, std::vector<std::string> stop, bool answer)
    : tokenizer_(tokenizer), stream_(std::move(stop)) {
  if (tokenizer && answer) start_.emplace(*tokenizer);
}

std::string SequenceText::push(int32_t id) {
  if (!tokenizer_) return "";
  return stream_.push(start_ ? start_->bytes_of(id) : tokenizer_->bytes_of(id), tokenizer_->is_special(id));
}

}  // namespace weft::serve
