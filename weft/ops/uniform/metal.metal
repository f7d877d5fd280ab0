#include <metal_stdlib>

#include "weft/ops/uniform/params.h"
#include "weft/tile/metal/philox.metal.h"
#include "weft/tile/metal/vector.metal.h"

using namespace metal;
using namespace weft;

// Equation: out[i] = low + (high - low) unit(word i).
// Layout:   out packed; state {key_lo, key_hi, step_lo, step_hi}.
// Order:    every element on its own, by its index; four to a thread. Product and sum each round once: the product is an fma
//           with 0, so that no compiler fuses the two.
// Requires: at most 2^34 elements (the contract's).
// Traffic:  one write of out.
[[max_total_threads_per_threadgroup(256)]]
kernel void draw(device const uint* state_in [[buffer(0)]], device float* out [[buffer(1)]], constant UniformParams& p [[buffer(2)]],
                 uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                 uint group [[threadgroup_position_in_grid]]) {
  const uint4 state = random_state(state_in, thread_index);
  const long block = long(group) * threads + thread_index;
  if (block * 4 >= p.count) return;
  const uint4 words = random_block(state, p.site, block);
  Chunk<float, 4> values;
#pragma unroll
  for (int i = 0; i < 4; ++i) values.set(i, fma(unit_float(words[i]), p.range, 0.0f) + p.low);
  store_chunk<float, 4>(values, out + block * 4, int(min(p.count - block * 4, 4l)), p.aligned);
}

// Equation: step = step + 1, modulo 2^64. One thread.
[[max_total_threads_per_threadgroup(32)]]
kernel void advance(device uint* state [[buffer(0)]]) {
  state[2] += 1;
  if (state[2] == 0) state[3] += 1;
}
