// The ids of words seen before: short words repeat, and looking one up is several times faster than merging it again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace weft {

class WordCache {
 public:
  static constexpr size_t kLongest = 64;     // bytes; longer words rarely repeat
  static constexpr size_t kMost = 1u << 16;  // words; then the cache is cleared. About 4 MiB

  static uint64_t hash_of(std::string_view word);

  // nullptr: not there. The pointer is valid until the next put().
  struct Found {
    const int32_t* ids;
    uint32_t count;
  };
  Found find(std::string_view word, uint64_t hash) const;
  void put(std::string_view word, uint64_t hash, std::span<const int32_t> ids);

 private:
  struct Slot {
    uint64_t hash = 0;
    uint32_t text = 0, ids = 0;      // offsets into texts_ and ids_
    uint32_t length = 0, count = 0;  // length 0: empty
  };
  size_t place(std::string_view word, uint64_t hash) const;
  void grow();

  std::vector<Slot> slots_;
  std::vector<char> texts_;
  std::vector<int32_t> ids_;
  size_t words_ = 0;
};

}  // namespace weft
