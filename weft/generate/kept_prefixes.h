// Sequences that have left an engine and whose pages stay in the pool, for prompts that begin as they did. They give way when a sequence
// needs pages: the least recently used one, from its end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/nn/kv_pool.h"

namespace weft {

size_t common_prefix(std::span<const int32_t> a, std::span<const int32_t> b);

class KeptPrefixes {
 public:
  // `ids`: of the positions in `pages`. Replaces kept sequences that are prefixes of it; does nothing if it is a prefix of one.
  void keep(std::span<const int32_t> ids, KvSequence pages);

  struct Match {
    size_t entry = 0, length = 0;  // length 0: none
  };
  // The entry of this adapter with the longest common prefix with `ids`.
  Match find(std::span<const int32_t> ids, int adapter) const;
  KvSequence prefix(const Match& match) const { return entries_[match.entry].pages.prefix(int64_t(match.length)); }
  void use(const Match& match) { entries_[match.entry].used = ++uses_; }

  // The number of pages to which kept sequences alone refer.
  int64_t pages() const;
  // Gives back one page, or one reference to it. There must be an entry.
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
