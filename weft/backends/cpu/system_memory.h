// What the CPU's pool takes from the system.
//
// Page faults on large temporaries cost several times the work done in them, and reading weights from 4 KiB pages a fifth of
// its rate, so blocks lie in memory that is aligned to 2 MiB and advised as huge pages: from 2 MiB on each in a mapping of
// its own (what is left past its last 2 MiB has small pages), from kHugeFrom on several in one. Smaller ones, and all below
// 2 MiB of a checked pool, come from malloc, where sanitizers watch their ends.
#pragma once

#include <map>

#include "weft/device/pool.h"

namespace weft::cpu {

class SystemMemory : public MemorySource {
 public:
  static constexpr int64_t kHugePage = int64_t(2) << 20, kHugeFrom = int64_t(64) << 10;

  explicit SystemMemory(bool checked) : shares_(!checked) {}

  void* obtain(int64_t bytes) override;
  void give_back(void* handle, int64_t bytes) override;
  Room room() override;
  void fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) override;
  void read(void* handle, int64_t offset, void* host, int64_t bytes) override;

 private:
  bool shared(int64_t bytes) const { return shares_ && kHugeFrom <= bytes && bytes < kHugePage; }
  void* take_part(int64_t bytes);
  void return_part(char* at, int64_t bytes);

  const bool shares_;
  std::map<char*, int64_t> free_;  // of the shared mappings, by address: stretches that touch no other
};

}  // namespace weft::cpu
