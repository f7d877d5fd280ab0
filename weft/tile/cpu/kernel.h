// Included by every cpu.cpp, outside the per-target code: pointers out of views, the threads of the device, and the export of a kernel
// compiled for several instruction sets as one function.
//
// A cpu.cpp reads:
//   #undef HWY_TARGET_INCLUDE
//   #define HWY_TARGET_INCLUDE "weft/ops/rms_norm/cpu.cpp"
//   #include <hwy/foreach_target.h>      // compiles this file once per target
//   #include "weft/tile/cpu/rows.h"
//   HWY_BEFORE_NAMESPACE();
//   namespace weft::cpu::HWY_NAMESPACE { void rms_norm(Stream&, const RmsNormArgs&) {...} }
//   HWY_AFTER_NAMESPACE();
//   #if HWY_ONCE
//   WEFT_CPU_KERNEL(rms_norm, RmsNormArgs)
//   #endif
#pragma once

#include <algorithm>
#include <memory>

#include "weft/base/parallel.h"
#include "weft/device/device.h"
#include "weft/tensor/data.h"
#include "weft/tile/cpu/caches.h"

namespace weft::cpu {

// The number of threads the stream's device was opened with.
int threads(const Stream& stream);

// Workspace from the device's pool, for the length of a launch.
template <class T>
class Scratch {
 public:
  Scratch(const Stream& stream, int64_t count) : buffer_(stream.device().allocate(count * int64_t(sizeof(T)), MemoryUse::workspace)) {}
  T* data() const { return reinterpret_cast<T*>(static_cast<char*>(buffer_->handle()) + buffer_->offset()); }

 private:
  std::shared_ptr<Buffer> buffer_;
};

// body(first, last) over groups of rows, in parallel. A group holds about 32 Ki elements, whatever the thread count.
template <class F>
void for_each_row_group(const Stream& stream, int64_t rows, int64_t columns, F&& body) {
  constexpr int64_t kElements = 32768;
  const int64_t group = std::max<int64_t>(1, kElements / std::max<int64_t>(1, columns));
  parallel_for(ceil_div(rows, group), threads(stream), [&](int64_t task) { body(task * group, std::min(rows, (task + 1) * group)); });
}

// body(row, first, count) over pieces of rows, in parallel, for elementwise kernels: several threads share one long row. A piece holds
// at most 32 Ki elements.
template <class F>
void for_each_row_piece(const Stream& stream, int64_t rows, int64_t columns, F&& body) {
  constexpr int64_t kLongest = 32768;
  const int64_t pieces = ceil_div(columns, kLongest);
  for_each_row_group(stream, rows * pieces, std::min(columns, kLongest), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t start = i % pieces * kLongest;
      body(i / pieces, start, std::min(kLongest, columns - start));
    }
  });
}

// Whether a launch that moves `bytes` stores `out` non-temporally: it moves more than the caches hold, so `out` would not stay there,
// and every row starts on a cache line.
inline bool stores_non_temporally(int64_t bytes, const MutView& out, int64_t row_stride) {
  return bytes >= kLaunchOutOfCache && reinterpret_cast<uintptr_t>(data<char>(out)) % 64 == 0 && row_stride * size_of(out.dtype) % 64 == 0;
}

}  // namespace weft::cpu

// Declares and defines weft::cpu::kernel as the best compiled target that this machine runs.
#define WEFT_CPU_KERNEL(kernel, Args)                                                           \
  namespace weft::cpu {                                                                         \
  HWY_EXPORT(kernel);                                                                           \
  void kernel(Stream& stream, const Args& args) { HWY_DYNAMIC_DISPATCH(kernel)(stream, args); } \
  }
