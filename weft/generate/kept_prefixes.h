// A cache of finished sequences whose pages stay in the pool, for later prompts with the same prefix. When a sequence needs pages, they are
// taken from the end of the least recently used entry.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/nn/kv_pool.h"

namespace weft {

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b);

class KeptPrefixes {
 public:
  // Adds a sequence; `ids` are the tokens of the positions in `pages`. Entries that are prefixes of it are removed. Does nothing if it is
  // a prefix of an entry.
  void keep(std::span<const int32_t> ids, KvSequence pages);

  struct Match {
    size_t entry = 0, length = 0;  // length 0: none
  };
  // The entry with this adapter that has the longest common prefix with `ids`.
  Match find(std::span<const int32_t> ids, int adapter) const;
  KvSequence prefix(const Match& match) const { return entries_[match.entry].pages.prefix(int64_t(match.length)); }
  void use(const Match& match) { entries_[match.entry].used = ++uses_; }

  // The number of pages that only kept sequences refer to.
  int64_t pages() const;
  // Removes the last page of the least recently used entry; the page is free unless another sequence refers to it. Not when empty().
  void give_up_page();
  bool empty() const { return entries_.empty(); }

 private:
  struct Entry {
    std::vector<int32_t> ids;
    KvSequence pages;
    uint64_t used;
  };
  std::vector<Entry> entries_;
  uint64_t uses_ = 0;
};

}  // namespace weft
