#include "weft/serve/sequence_text.h"

namespace weft::serve {

SequenceText::SequenceText(const Tokenizer* tokenizer, std::vector<std::string> stop, bool answer)
    : tokenizer_(tokenizer), stream_(std::move(stop)), at_start_(answer) {}

std::string SequenceText::push(int32_t id) {
  if (!tokenizer_) return "";
  if (at_start_) first_ids_.push_back(id);
  return begun(stream_.push(tokenizer_->bytes_of(id), tokenizer_->is_special(id)));
}

std::string SequenceText::finish() { return begun(stream_.finish()); }

std::string SequenceText::begun(std::string text) {
  if (!at_start_ || text.empty()) return text;
  at_start_ = false;
  const std::string alone = tokenizer_->decode(first_ids_, true);
  size_t removed = 0;
  while (removed < text.size() && text[removed] == ' ' && !alone.starts_with(std::string_view(text).substr(removed))) ++removed;
  return text.substr(removed);
}

}  // namespace weft::serve
