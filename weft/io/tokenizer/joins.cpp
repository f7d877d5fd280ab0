#include "weft/io/tokenizer/joins.h"

namespace weft {

bool Joins::in_others(char32_t left, char32_t right) const {
  if (others_.empty()) return false;
  const uint64_t key = key_of(left, right);
  const size_t mask = others_.size() - 1;
  for (size_t at = size_t(mixed_bits(key)) & mask; others_[at] != 0; at = (at + 1) & mask)
    if (others_[at] == key) return true;
  return false;
}

void Joins::grow() {
  std::vector<uint64_t> before(others_.empty() ? 64 : others_.size() * 2, 0);
  before.swap(others_);
  const size_t mask = others_.size() - 1;
  for (const uint64_t key : before) {
    if (key == 0) continue;
    size_t at = size_t(mixed_bits(key)) & mask;
    while (others_[at] != 0) at = (at + 1) & mask;
    others_[at] = key;
  }
}

void Joins::add(char32_t left, char32_t right) {
  const size_t l = index(left), r = index(right);
  if (l < kCommon && r < kCommon) {
    common_.set(l * kCommon + r);
    return;
  }
  if (in_others(left, right)) return;
  if (2 * count_ >= others_.size()) grow();
  const uint64_t key = key_of(left, right);
  const size_t mask = others_.size() - 1;
  size_t at = size_t(mixed_bits(key)) & mask;
  while (others_[at] != 0) at = (at + 1) & mask;
  others_[at] = key;
  ++count_;
}

}  // namespace weft
