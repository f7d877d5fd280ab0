// Words and how often they occur: open addressing over texts that the table owns (WordTable) or that lie elsewhere (LocalWords). A table
// is one of kShards: all words whose hash has the same first bits, so that threads fill different tables without locks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft {

inline constexpr int kWordShardBits = 6;  // 64 tables: enough to keep the threads of any machine busy
inline constexpr int kWordShards = 1 << kWordShardBits;
inline int word_shard_of(uint64_t hash) { return int(hash >> (64 - kWordShardBits)); }

class WordTable {
 public:
  // `word` is not empty; `hash` is WordCache::hash_of(word).
  void add(std::string_view word, uint64_t hash, int64_t count);

  int64_t words() const { return words_; }
  int64_t bytes() const { return int64_t(texts_.size()); }  // of their texts

  // Calls visit(word, count) for each word.
  template <class Visit>
  void visit(const Visit& visit) const {
    for (const Slot& slot : slots_)
      if (slot.count > 0) visit(text_of(slot), slot.count);
  }
  // Drops all words that occur at most `count` times.
  void keep_above(int64_t count);

 private:
  struct Slot {
    uint64_t hash = 0;
    int64_t count = 0;              // 0: empty
    uint32_t text = 0, length = 0;  // in texts_
  };
  std::string_view text_of(const Slot& slot) const { return {texts_.data() + slot.text, slot.length}; }
  void grow();

  std::vector<Slot> slots_;
  std::vector<char> texts_;
  int64_t words_ = 0;
};

// The words of one piece of text, which must outlive them.
class LocalWords {
 public:
  struct Word {
    uint64_t hash = 0;
    const char* text = nullptr;
    uint32_t length = 0, count = 0;  // count 0: empty
  };

  void add(std::string_view word, uint64_t hash);
  // Sorts the words by shard; then of_shard() has them, until clear().
  void group();
  std::span<const Word> of_shard(int shard) const;
  void clear();

 private:
  void grow();

  std::vector<Word> slots_, grouped_;
  std::array<uint32_t, kWordShards + 1> begin_{};
  size_t words_ = 0;
};

}  // namespace weft
