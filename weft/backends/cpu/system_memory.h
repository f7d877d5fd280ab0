// System memory for the CPU's pool, and its resident size.
//
// Page faults on large temporaries cost several times the work done in them, and reading weights from 4 KiB pages costs a fifth of the
// rate, so blocks lie in memory that is aligned to 2 MiB and advised as huge pages: blocks from 2 MiB on each in a mapping of their own
// (the rest past the last 2 MiB has small pages), from kHugeFrom on several in one. Smaller blocks, and all below 2 MiB of a checked pool,
// come from malloc, where sanitizers watch their ends.
//
// A page is resident once it was written. Whole huge pages of a shared mapping without a block are returned to the system. A planned run
// obtains the same addresses without memory behind them, and held() is what the real run would hold.
#pragma once

#include <map>
#include <unordered_map>

#include "weft/device/pool.h"

namespace weft::cpu {

class SystemMemory : public MemorySource {
 public:
  static constexpr int64_t kHugePage = int64_t(2) << 20, kHugeFrom = int64_t(64) << 10;

  explicit SystemMemory(bool checked, bool planned = false) : shares_(!checked), planned_(planned) {}

  void* obtain(int64_t bytes) override;
  void give_back(void* handle, int64_t bytes) override;
  Room room() override;
  int64_t held() const override { return held_; }
  void touch(void* handle, int64_t bytes, int64_t used) override;
  void fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) override;
  void read(void* handle, int64_t offset, void* host, int64_t bytes) override;

 private:
  bool shared(int64_t bytes) const { return shares_ && kHugeFrom <= bytes && bytes < kHugePage; }
  void* take_part(int64_t bytes);
  void return_part(char* at, int64_t bytes);
  char* map(int64_t bytes, int64_t alignment) const;
  void add_user(char* at, int64_t bytes);
  void remove_user(char* at, int64_t bytes);

  const bool shares_, planned_;
  int64_t held_ = 0;
  std::unordered_map<void*, int64_t> touched_;  // resident bytes of a block with its own mapping
  std::map<char*, int> users_;                  // blocks in each huge page of the shared mappings
  std::map<char*, int64_t> free_;               // free ranges of the shared mappings, by address; no two are adjacent
};

}  // namespace weft::cpu
