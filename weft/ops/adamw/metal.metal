#include <metal_stdlib>

#include "weft/ops/adamw/params.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/two_floats.metal.h"
#include "weft/tile/metal/vector.metal.h"

using namespace metal;
using namespace weft;

constant bool kGradScale [[function_constant(0)]];  // grad_scale is there

constant constexpr int kThreads = 256, kTurns = 4;

// Equation: the coefficients of adamw.h, correct to about an ulp of f32: powers of beta in two floats.
// Layout:   scalars. Order: one thread, before the others start.
// Requires: step >= 1, else a fault, and bad_step, so that nothing is updated.
// Traffic:  a few bytes.
[[max_total_threads_per_threadgroup(32)]]
kernel void prepare(device const float* lr [[buffer(0)]], device const int* step_in [[buffer(1)]],
                    device const float* grad_scale [[buffer(2)]], device AdamwCoefficients& k [[buffer(3)]],
                    constant AdamwParams& p [[buffer(4)]], device Fault& fault [[buffer(5)]]) {
  const int step = *step_in;
  if (step < 1) report(fault, metal_fault::bad_step, step, 0, 0);
  const TwoFloats beta1 = {p.beta1, p.beta1_low}, beta2 = {p.beta2, p.beta2_low};
  k.beta1 = p.beta1;
  k.rest1 = p.rest1;
  k.beta2 = p.beta2;
  k.rest2 = p.rest2;
  k.step_size = divided(*lr, one_minus(power(beta1, step)));
  k.spread = over_root(one_minus(power(beta2, step)));
  k.eps = p.eps;
  k.grad_scale = kGradScale ? *grad_scale : 1.0f;
  k.lr = *lr;
  k.bad_step = step < 1;
}

// Read once by each simdgroup; every thread of it calls this.
inline AdamwCoefficients shared_coefficients(device const uint* from, uint thread_index) {
  const uint word = thread_index % 32 < 10 ? from[thread_index % 32] : 0u;
  const float value = as_type<float>(word);
  return {simd_broadcast(value, 0), simd_broadcast(value, 1),    simd_broadcast(value, 2), simd_broadcast(value, 3),
          simd_broadcast(value, 4), simd_broadcast(value, 5),    simd_broadcast(value, 6), simd_broadcast(value, 7),
          simd_broadcast(value, 8), int(simd_broadcast(word, 9))};
}

// Equation: the four of adamw.h; lr m^ / (sqrt(v^) + eps) as step_size m / (sqrt(v) spread + eps).
// Layout:   all packed; T is param's type, G grad's. p is master, or param itself: bound as `weight`; `narrow` is a bf16 param.
// Order:    every element on its own; a threadgroup takes a piece of 8192, a thread four times eight of it.
// Requires: packed operands of one shape (the contract's); step >= 1, else nothing is updated.
// Traffic:  one read of grad, one read and one write of p, m and v; one write of a bf16 param.
template <class G, bool kNarrow>
[[max_total_threads_per_threadgroup(256)]]
kernel void update(device const G* grad [[buffer(0)]], device float* m [[buffer(1)]], device float* v [[buffer(2)]],
                   device float* weight [[buffer(3)]], device bfloat* narrow [[buffer(4)]], device const uint* coefficients [[buffer(5)]],
                   constant AdamwTensorParams& p [[buffer(6)]], uint thread_index [[thread_index_in_threadgroup]],
                   uint group [[threadgroup_position_in_grid]]) {
  constexpr int N = 8;  // sixteen bytes of bf16
  const AdamwCoefficients k = shared_coefficients(coefficients, thread_index);
  if (k.bad_step) return;
  const float decay = k.lr * p.weight_decay;
  for (int turn = 0; turn < kTurns; ++turn) {
    const long first = ((long(group) * kTurns + turn) * kThreads + thread_index) * N;
    if (first >= p.count) return;
    const int count = int(min(p.count - first, long(N)));
    const Chunk<G, N> g = load_chunk<G, N>(grad + first, count, p.aligned);
    Chunk<float, N> mean = load_chunk<float, N>(m + first, count, p.aligned), square = load_chunk<float, N>(v + first, count, p.aligned),
                    w = load_chunk<float, N>(weight + first, count, p.aligned);
    Chunk<bfloat, N> rounded = {};
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float scaled = g[i] * k.grad_scale;
      mean.set(i, fma(scaled, k.rest1, mean[i] * k.beta1));
      square.set(i, fma(scaled * scaled, k.rest2, square[i] * k.beta2));
      const float change = mean[i] / fma(precise::sqrt(square[i]), k.spread, k.eps);
      w.set(i, fma(-change, k.step_size, fma(-w[i], decay, w[i])));
      if (kNarrow) rounded.set(i, w[i]);
    }
    store_chunk<float, N>(mean, m + first, count, p.aligned);
    store_chunk<float, N>(square, v + first, count, p.aligned);
    store_chunk<float, N>(w, weight + first, count, p.aligned);
    if (kNarrow) store_chunk<bfloat, N>(rounded, narrow + first, count, p.aligned);
  }
}

template [[host_name("update_f32_f32")]] kernel decltype(update<float, false>) update<float, false>;
template [[host_name("update_f32_bf16")]] kernel decltype(update<bfloat, false>) update<bfloat, false>;
template [[host_name("update_bf16_f32")]] kernel decltype(update<float, true>) update<float, true>;
template [[host_name("update_bf16_bf16")]] kernel decltype(update<bfloat, true>) update<bfloat, true>;
