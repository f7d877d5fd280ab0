#include "weft/generate/answer_start.h"

#include <algorithm>
#include <span>

namespace weft {
namespace {

size_t spaces_before(std::string_view text) { return std::min(text.size(), text.find_first_not_of(' ')); }

}  // namespace

std::string_view AnswerStart::bytes_of(int32_t id) {
  std::string_view bytes = tokenizer_->bytes_of(id);
  if (over_ || bytes.empty() || tokenizer_->is_special(id)) return bytes;
  over_ = true;
  const size_t within = spaces_before(bytes), alone = spaces_before(tokenizer_->decode(std::span(&id, 1)));
  bytes.remove_prefix(within - std::min(within, alone));
  return bytes;
}

}  // namespace weft
