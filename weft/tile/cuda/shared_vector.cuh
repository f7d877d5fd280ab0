// Sixteen bytes of shared memory that copy_async() filled. Reads and copies are all volatile assembly, so the compiler keeps their order:
// no read moves above the copies_wait() before it or below the copy that overwrites it.
#pragma once

#include <cstdint>

namespace weft::cuda {

__device__ __forceinline__ uint4 shared_vector(uint32_t address) {
  uint4 v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];\n" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
}

}  // namespace weft::cuda
