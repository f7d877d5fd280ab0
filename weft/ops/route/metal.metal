#include <metal_stdlib>

#include "weft/ops/route/params.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/scalar.metal.h"
#include "weft/tile/metal/team.metal.h"

using namespace metal;
using namespace weft;

constant constexpr int kSlots = 32;      // experts per lane: 1024 in total
constant constexpr int kNone = 1 << 20;  // no expert

// The logits of a row in the registers of a simdgroup: element i of a lane is expert 32 i + lane.
struct ExpertRow {
  float x[kSlots];
  uint exists, chosen;  // bit i

  template <class T>
  void load(device const T* from, int experts, int lane) {
    exists = chosen = 0;
    for (int i = 0; i < kSlots && i * 32 < experts; ++i) {
      const bool inside = i * 32 + lane < experts;
      x[i] = inside ? to_float(from[i * 32 + lane]) : 0.0f;
      exists |= uint(inside) << uint(i);
    }
  }

  // Marks the largest unmarked element, the lowest expert among equals. A NaN counts as the largest.
  void choose(int experts, int lane) {
    float best = -INFINITY;
    int at = kNone;
    for (int i = 0; i < kSlots && i * 32 < experts; ++i) {
      const float v = isnan(x[i]) ? INFINITY : x[i];
      if (((exists & ~chosen) >> uint(i) & 1u) != 0 && (at == kNone || v > best)) best = v, at = i * 32 + lane;
    }
    for (ushort distance = 16; distance > 0; distance /= 2) {
      const float v = simd_shuffle_xor(best, distance);
      const int other = simd_shuffle_xor(at, distance);
      if (other != kNone && (at == kNone || v > best || (v == best && other < at))) best = v, at = other;
    }
    if (at % 32 == lane) chosen |= 1u << uint(at / 32);
  }

  // Replaces x by its softmax over the `counted` elements; other elements become 0.
  void softmax(uint counted, int experts, int lane) {
    float m = -INFINITY;
    for (int i = 0; i < kSlots && i * 32 < experts; ++i)
      if ((counted >> uint(i) & 1u) != 0) m = fmax(m, x[i]);
    m = simd_reduce<Max>(m, uint(lane));
    if (m == -INFINITY) m = 0.0f;
    float sum = 0.0f;
    for (int i = 0; i < kSlots && i * 32 < experts; ++i) {
      x[i] = (counted >> uint(i) & 1u) != 0 ? precise::exp(x[i] - m) : 0.0f;
      sum += x[i];
    }
    sum = simd_reduce<Sum>(sum, uint(lane));
    const float over_sum = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int i = 0; i < kSlots && i * 32 < experts; ++i) x[i] *= over_sum;
  }
};

// Equation: ids = the k largest of the logits, ascending; weights = their softmax, of all logits or of the chosen.
// Layout:   logits [R, E] with a row stride, ids and weights [R, k].
// Order:    a simdgroup per row, whose lane l has experts l, l + 32, ...; sums by lane ascending, then a butterfly over the lanes.
// Requires: 128 threads, E <= 1024.
// Traffic:  one read of logits, one write of ids and weights.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void choose_experts(device const T* logits [[buffer(0)]], device int* ids [[buffer(1)]], device float* weights [[buffer(2)]],
                           constant RouteParams& p [[buffer(3)]], uint thread_index [[thread_index_in_threadgroup]],
                           uint group [[threadgroup_position_in_grid]]) {
  const long r = long(group) * 4 + thread_index / 32;
  const int lane = int(thread_index) % 32;
  if (r >= p.rows) return;  // whole simdgroups leave
  ExpertRow row;
  row.load(logits + r * p.stride, p.experts, lane);
  for (int j = 0; j < p.chosen; ++j) row.choose(p.experts, lane);
  row.softmax(p.of_chosen != 0 ? row.chosen : row.exists, p.experts, lane);
  int before = 0;
  for (int i = 0; i < kSlots && i * 32 < p.experts; ++i) {
    const int chosen = int(row.chosen >> uint(i) & 1u), upto = simd_prefix_inclusive_sum(chosen);
    const long to = r * p.chosen + before + upto - 1;
    if (chosen != 0) ids[to] = i * 32 + lane, weights[to] = row.x[i];
    before += simd_broadcast(upto, 31);
  }
}

// Equation: dlogits = p (g - s), s = sum(p g), g = dweights of the chosen experts.
// Layout:   logits, dlogits [R, E] with a row stride each, ids and dweights [R, k].
// Order:    as in the forward kernel.
// Requires: 128 threads, E <= 1024; ids of the forward pass, in [0, E); invalid ones are reported and ignored.
// Traffic:  one read of logits, ids and dweights, one write of dlogits.
template <class T>
[[max_total_threads_per_threadgroup(128)]]
kernel void choose_experts_backward(device const T* logits [[buffer(0)]], device const int* ids [[buffer(1)]],
                                    device const float* dweights [[buffer(2)]], device T* dlogits [[buffer(3)]],
                                    constant RouteParams& p [[buffer(4)]], device Fault& fault [[buffer(5)]],
                                    uint thread_index [[thread_index_in_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  const long r = long(group) * 4 + thread_index / 32;
  const int lane = int(thread_index) % 32;
  if (r >= p.rows) return;  // whole simdgroups leave
  ExpertRow row;
  row.load(logits + r * p.stride, p.experts, lane);
  float g[kSlots] = {};
  for (int j = 0; j < p.chosen; ++j) {
    const int id = ids[r * p.chosen + j];
    if ((id < 0 || id >= p.experts) && lane == 0) report(fault, metal_fault::id_out_of_range, id, r * p.chosen + j, p.experts);
    if (id < 0 || id >= p.experts || id % 32 != lane) continue;
    g[id / 32] = dweights[r * p.chosen + j];
    row.chosen |= 1u << uint(id / 32);
  }
  const uint counted = p.of_chosen != 0 ? row.chosen : row.exists;
  row.softmax(counted, p.experts, lane);
  float s = 0.0f;
  for (int i = 0; i < kSlots && i * 32 < p.experts; ++i) s = fma(row.x[i], g[i], s);
  s = simd_reduce<Sum>(s, uint(lane));
  for (int i = 0; i < kSlots && i * 32 < p.experts; ++i)
    if ((row.exists >> uint(i) & 1u) != 0)
      dlogits[r * p.to_stride + i * 32 + lane] = from_float<T>((counted >> uint(i) & 1u) != 0 ? row.x[i] * (g[i] - s) : 0.0f);
}

#define WEFT_ROUTE(suffix, T)                                                                  \
  template [[host_name("route" suffix)]] kernel decltype(choose_experts<T>) choose_experts<T>; \
  template [[host_name("route_backward" suffix)]] kernel decltype(choose_experts_backward<T>) choose_experts_backward<T>;
WEFT_ROUTE("_f32", float)
WEFT_ROUTE("_bf16", bfloat)
