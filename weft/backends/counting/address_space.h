// Reserves address space without memory: a page is allocated when it is first written. For devices that plan instead of computing.
#pragma once

#include <sys/mman.h>

#include <cstring>

#include "weft/device/pool.h"

namespace weft::counting {

class AddressSpace : public MemorySource {
 public:
  // `behind`: the memory that the real source uses for a block of so many bytes.
  explicit AddressSpace(int64_t (*behind)(int64_t bytes) = [](int64_t bytes) { return bytes; }) : behind_(behind) {}

  void* obtain(int64_t bytes) override {
    void* memory = ::mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kNoReserve, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    held_ += behind_(bytes);
    return memory;
  }
  void give_back(void* handle, int64_t bytes) override {
    ::munmap(handle, size_t(bytes));
    held_ -= behind_(bytes);
  }
  int64_t held() const override { return held_; }
  void fill(void*, int64_t, uint8_t, int64_t) override {}
  void read(void* handle, int64_t offset, void* host, int64_t bytes) override {
    std::memcpy(host, static_cast<char*>(handle) + offset, size_t(bytes));
  }

 private:
#ifdef MAP_NORESERVE
  static constexpr int kNoReserve = MAP_NORESERVE;
#else
  static constexpr int kNoReserve = 0;
#endif
  int64_t (*const behind_)(int64_t);
  int64_t held_ = 0;
};

}  // namespace weft::counting
