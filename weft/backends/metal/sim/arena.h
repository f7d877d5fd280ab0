// Address space for the threadgroup memory of one worker: far more addresses than memory, which is allocated on first touch.
#pragma once

#include <sys/mman.h>

#include <cstdint>

#include "weft/base/check.h"

namespace weft::metal::sim {

class Arena {
 public:
  Arena() : memory_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (memory_ == MAP_FAILED) fail(ErrorCode::out_of_memory, "metal-sim", "no addresses for threadgroup memory");
  }
  ~Arena() { munmap(memory_, kBytes); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  char* begin() const { return static_cast<char*>(memory_); }
  static constexpr uint64_t bytes() { return kBytes; }

 private:
  static constexpr uint64_t kBytes = 64 << 20;
  void* memory_;
};

}  // namespace weft::metal::sim
