// Address space, not memory: a page appears when it is first written. For devices that plan instead of computing.
#pragma once

#include <sys/mman.h>

#include <cstring>

#include "weft/device/pool.h"

namespace weft::counting {

class AddressSpace : public MemorySource {
 public:
  void* obtain(int64_t bytes) override {
    void* memory = ::mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kNoReserve, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
  }
  void give_back(void* handle, int64_t bytes) override { ::munmap(handle, size_t(bytes)); }
  void fill(void*, int64_t, uint8_t, int64_t) override {}
  void read(void* handle, int64_t offset, void* host, int64_t bytes) override { std::memcpy(host, static_cast<char*>(handle) + offset, size_t(bytes)); }

 private:
#ifdef MAP_NORESERVE
  static constexpr int kNoReserve = MAP_NORESERVE;
#else
  static constexpr int kNoReserve = 0;
#endif
};

}  // namespace weft::counting
