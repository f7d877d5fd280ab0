#include "weft/serve/sequence_text.h"

#include <algorithm>

namespace weft::serve {
namespace {

size_t spaces_before(std::string_view text) { return std::min(text.size(), text.find_first_not_of(' ')); }

}  // namespace

SequenceText::SequenceText(const Tokenizer* tokenizer, std::vector<std::string> stop, bool answer)
    : tokenizer_(tokenizer), stream_(std::move(stop)), at_start_(answer) {}

std::string SequenceText::push(int32_t id) {
  if (!tokenizer_) return "";
  const bool special = tokenizer_->is_special(id);
  std::string_view bytes = tokenizer_->bytes_of(id);
  if (at_start_ && !special && !bytes.empty()) {
    at_start_ = false;
    const size_t within = spaces_before(bytes), alone = spaces_before(tokenizer_->decode(std::span(&id, 1)));
    bytes.remove_prefix(within - std::min(within, alone));
  }
  return stream_.push(bytes, special);
}

}  // namespace weft::serve
