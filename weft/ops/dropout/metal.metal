#include <metal_stdlib>

#include "weft/ops/dropout/params.h"
#include "weft/tile/metal/philox.metal.h"
#include "weft/tile/metal/vector.metal.h"

using namespace metal;
using namespace weft;

// Equation: y[i] = word i >= round(p 2^32) ? x[i] (1 / (1 - p)) : 0.
// Layout:   x, y packed; state {key_lo, key_hi, step_lo, step_hi}.
// Order:    every element on its own, by its index; eight to a thread.
// Requires: 0 <= p < 1, at most 2^34 elements (the contract's). A dropped NaN is 0. y may be x.
// Traffic:  one read of x, one write of y.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void drop(device const T* x [[buffer(0)]], device const uint* state_in [[buffer(1)]], device T* y [[buffer(2)]],
                 constant DropoutParams& p [[buffer(3)]], uint thread_index [[thread_index_in_threadgroup]],
                 uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  constexpr int N = 8;
  const uint4 state = random_state(state_in, thread_index);
  const long first = (long(group) * threads + thread_index) * N;
  if (first >= p.count) return;
  const int count = int(min(p.count - first, long(N)));
  Chunk<T, N> piece = load_chunk<T, N>(x + first, count, p.aligned);
#pragma unroll
  for (int b = 0; b < 2; ++b) {
    const uint4 words = random_block(state, p.site, first / 4 + b);
#pragma unroll
    for (int i = 0; i < 4; ++i) piece.set(b * 4 + i, words[i] < p.threshold ? 0.0f : piece[b * 4 + i] * p.inverse);
  }
  store_chunk<T, N>(piece, y + first, count, p.aligned);
}

template [[host_name("drop_f32")]] kernel decltype(drop<float>) drop<float>;
template [[host_name("drop_bf16")]] kernel decltype(drop<bfloat>) drop<bfloat>;
