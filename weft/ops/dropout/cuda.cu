#include "weft/ops/dropout/dropout.h"
#include "weft/tile/cuda/launch.h"
#include "weft/tile/cuda/philox.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

// Equation: y[i] = word i >= round(p 2^32) ? x[i] (1 / (1 - p)) : 0.
// Layout:   x, y packed; state {key_lo, key_hi, step_lo, step_hi}.
// Order:    every element on its own, by its index; eight to a thread.
// Requires: 0 <= p < 1, at most 2^34 elements (the contract's). A dropped NaN is 0. y may be x.
// Traffic:  one read of x, one write of y.
template <class T>
__global__ void drop(const T* x, const uint32_t* state, uint32_t site, T* y, int64_t count, uint32_t threshold, float inverse,
                     bool aligned) {
  constexpr int kWidth = 8;
  const int64_t first = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
  if (first >= count) return;
  const int left = count - first < kWidth ? int(count - first) : kWidth;
  const bool whole = aligned && left == kWidth;
  auto piece = whole ? load_chunk<T, kWidth>(x + first) : load_chunk<T, kWidth>(x + first, left, 0);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const PhiloxBlock words = random_block(state, site, first / 4 + half);
#pragma unroll
    for (int i = 0; i < 4; ++i) piece.set(half * 4 + i, words[i] < threshold ? 0.0f : piece[half * 4 + i] * inverse);
  }
  whole ? store_chunk(piece, y + first) : store_chunk(piece, y + first, left);
}

}  // namespace

void dropout(Stream& stream, const DropoutArgs& a) {
  const int64_t count = a.x.numel();
  const auto threshold = uint32_t(double(a.p) * 0x1p32 + 0.5);  // a float below 1 is at most 1 - 2^-24: this fits
  const float inverse = 1.0f / (1.0f - a.p);
  dispatch_device<float, bf16>(a.x.dtype, [&]<class T>() {
    const bool aligned = aligned16(data<T>(a.x)) && aligned16(data<T>(a.y));
    Launch(stream, a.kOp, {&a.x})(unsigned((count + 2047) / 2048), 256, 0, drop<T>, data<T>(a.x), data<uint32_t>(a.state), a.site,
                                  data<T>(a.y), count, threshold, inverse, aligned);
  });
}

}  // namespace weft::cuda
