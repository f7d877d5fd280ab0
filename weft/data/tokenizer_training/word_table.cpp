#include "weft/data/tokenizer_training/word_table.h"

#include <algorithm>
#include <cstring>

namespace weft {
namespace {

constexpr size_t kFirstSlots = 64;

bool same_text(const char* text, std::string_view word) { return std::memcmp(text, word.data(), word.size()) == 0; }

// At most two thirds full: a search ends after a few slots.
bool full(size_t words, size_t slots) { return 3 * (words + 1) > 2 * slots; }

}  // namespace

void WordTable::add(std::string_view word, uint64_t hash, int64_t count) {
  if (full(size_t(words_), slots_.size())) grow();
  const size_t mask = slots_.size() - 1;
  size_t at = size_t(hash) & mask;
  for (; slots_[at].count > 0; at = (at + 1) & mask) {
    Slot& slot = slots_[at];
    if (slot.hash == hash && slot.length == word.size() && same_text(texts_.data() + slot.text, word)) {
      slot.count += count;
      return;
    }
  }
  slots_[at] = {hash, count, uint32_t(texts_.size()), uint32_t(word.size())};
  texts_.insert(texts_.end(), word.begin(), word.end());
  ++words_;
}

void WordTable::grow() {
  std::vector<Slot> before(slots_.empty() ? kFirstSlots : slots_.size() * 2);
  before.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Slot& slot : before) {
    if (slot.count == 0) continue;
    size_t at = size_t(slot.hash) & mask;
    while (slots_[at].count > 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

void WordTable::keep_above(int64_t count) {
  WordTable kept;
  for (const Slot& slot : slots_)
    if (slot.count > count) kept.add(text_of(slot), slot.hash, slot.count);
  *this = std::move(kept);
}

void LocalWords::add(std::string_view word, uint64_t hash) {
  if (full(words_, slots_.size())) grow();
  const size_t mask = slots_.size() - 1;
  size_t at = size_t(hash) & mask;
  for (; slots_[at].count > 0; at = (at + 1) & mask) {
    Word& slot = slots_[at];
    if (slot.hash == hash && slot.length == word.size() && same_text(slot.text, word)) {
      ++slot.count;
      return;
    }
  }
  slots_[at] = {hash, word.data(), uint32_t(word.size()), 1};
  ++words_;
}

void LocalWords::grow() {
  std::vector<Word> before(slots_.empty() ? kFirstSlots : slots_.size() * 2);
  before.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const Word& word : before) {
    if (word.count == 0) continue;
    size_t at = size_t(word.hash) & mask;
    while (slots_[at].count > 0) at = (at + 1) & mask;
    slots_[at] = word;
  }
}

void LocalWords::group() {
  begin_.fill(0);
  for (const Word& word : slots_)
    if (word.count > 0) ++begin_[size_t(word_shard_of(word.hash)) + 1];
  for (size_t shard = 0; shard < kWordShards; ++shard) begin_[shard + 1] += begin_[shard];
  grouped_.resize(words_);
  auto next = begin_;
  for (const Word& word : slots_)
    if (word.count > 0) grouped_[next[size_t(word_shard_of(word.hash))]++] = word;
}

std::span<const LocalWords::Word> LocalWords::of_shard(int shard) const {
  return std::span(grouped_).subspan(begin_[size_t(shard)], begin_[size_t(shard) + 1] - begin_[size_t(shard)]);
}

void LocalWords::clear() {
  std::ranges::fill(slots_, Word());
  grouped_.clear();
  words_ = 0;
}

}  // namespace weft
