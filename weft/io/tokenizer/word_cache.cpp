#include "weft/io/tokenizer/word_cache.h"

#include <cstring>

#include "weft/io/tokenizer/merge_table.h"

namespace weft {

uint64_t WordCache::hash_of(std::string_view word) {
  uint64_t hash = 0x9e3779b97f4a7c15u * (word.size() + 1);
  const char* at = word.data();
  size_t left = word.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t eight;
    std::memcpy(&eight, at, 8);
    hash = mixed_bits(hash ^ eight);
  }
  uint64_t rest = 0;
  for (size_t i = 0; i < left; ++i) rest |= uint64_t(uint8_t(at[i])) << (8 * i);
  return mixed_bits(hash ^ rest);
}

size_t WordCache::place(std::string_view word, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t at = size_t(hash) & mask;
  for (; slots_[at].length != 0; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.hash == hash && slot.length == word.size() && std::memcmp(texts_.data() + slot.text, word.data(), word.size()) == 0) break;
  }
  return at;
}

WordCache::Found WordCache::find(std::string_view word, uint64_t hash) const {
  if (slots_.empty()) return {nullptr, 0};
  const Slot& slot = slots_[place(word, hash)];
  return slot.length == 0 ? Found{nullptr, 0} : Found{ids_.data() + slot.ids, slot.count};
}

void WordCache::grow() {
  std::vector<Slot> before(slots_.empty() ? 1024 : slots_.size() * 2);
  before.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.length == 0) continue;
    size_t at = size_t(slot.hash) & mask;
    while (slots_[at].length != 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void WordCache::put(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
  if (word.empty()) return;
  if (words_ == kMost) {
    slots_.assign(slots_.size(), Slot());
    texts_.clear();
    ids_.clear();
    words_ = 0;
  }
  if (2 * (words_ + 1) > slots_.size()) grow();
  Slot& slot = slots_[place(word, hash)];
  if (slot.length == 0) ++words_;
  slot = {hash, uint32_t(texts_.size()), uint32_t(ids_.size()), uint32_t(word.size()), uint32_t(ids.size())};
  texts_.insert(texts_.end(), word.begin(), word.end());
  ids_.insert(ids_.end(), ids.begin(), ids.end());
}

}  // namespace weft
