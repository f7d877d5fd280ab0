// Differences of a device from hardware that follows IEEE 754 at full speed, and its preferences. Code above the seam reads these
// instead of asking which device it is.
#pragma once

#include <cstdint>

namespace weft {

struct DeviceTraits {
  bool simulated = false;        // kernels run thread by thread on the CPU: for small cases, and times mean nothing
  bool checks_accesses = false;  // every access to memory is checked: slower still
  bool flushes = false;          // subnormal numbers may count as zero
  bool matmul_in_order = false;  // matmul adds its products in ascending k: cut along K into calls with beta = 1 it keeps its bits

  // Matmul runs at full speed where the extents of its operands are multiples of this many elements.
  int64_t matmul_multiple = 1;
  // Elements of an f32 temporary, such as a chunk of logits, from which on larger ones are not faster. 16 Mi (64 MiB): 328 rows of
  // GPT-2's 50304 logits, enough to keep the threads of a CPU in full tiles.
  int64_t temporary_elements = int64_t(16) << 20;
};

}  // namespace weft
