#include <metal_stdlib>

#include "weft/ops/kv_append/params.h"
#include "weft/tile/metal/fault.metal.h"
#include "weft/tile/metal/pages.metal.h"

using namespace metal;

namespace weft {

constant bool kPaged [[function_constant(0)]];

// Equation: k_cache[b, start[b] + t] = k[b, t], and so for v.
// Layout:   k, v [B, T, Hkv, D] and the caches [B, capacity, Hkv, D] or paged, any strides over the first three axes; start [B].
//           The type T has the element's size, or sixteen bytes if all rows are aligned to that; strides and D count elements of type T.
// Grid:     (ceil(T Hkv D / 256), B) groups; one T of k and of v a thread, no sums.
// Requires: 256 threads; valid starts and page ids: a sequence with an invalid start and a position with an invalid page are reported and
//           not written.
// Traffic:  one read and one write of each new element; start once for each simdgroup.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void append(device const T* k [[buffer(0)]], device const T* v [[buffer(1)]], device const int* start [[buffer(2)]],
                   device T* k_cache [[buffer(3)]], device T* v_cache [[buffer(4)]],
                   device const int* pages [[buffer(5), function_constant(kPaged)]], constant KvAppendParams& p [[buffer(6)]],
                   device Fault& fault [[buffer(7)]], uint2 group [[threadgroup_position_in_grid]],
                   uint thread_index [[thread_index_in_threadgroup]]) {
  const int64_t i = int64_t(group.x) * 256 + thread_index, b = group.y, at = simd_broadcast(thread_index % 32 == 0 ? start[b] : 0, 0);
  if (i >= p.count) return;
  const int64_t row = i / p.D, d = i % p.D, t = row / p.H, h = row % p.H;
  if (at < 0 || at > p.most) {
    if (i == 0) report(fault, metal_fault::start_out_of_range, at, b, p.most);
    return;
  }
  int64_t row_of = b, position = at + t;
  if (kPaged) {
    const int64_t n = position / p.pages.page;
    row_of = pages[b * p.pages.per_sequence + n];
    if (row_of < 0 || row_of >= p.pages.stored) return report(fault, metal_fault::page_out_of_range, row_of, n, p.pages.stored - 1);
    position %= p.pages.page;
  }
  k_cache[row_at(p.k_cache, row_of, position, h) + d] = k[row_at(p.k, b, t, h) + d];
  v_cache[row_at(p.v_cache, row_of, position, h) + d] = v[row_at(p.v, b, t, h) + d];
}

template [[host_name("append_2")]] kernel decltype(append<ushort>) append<ushort>;
template [[host_name("append_4")]] kernel decltype(append<uint>) append<uint>;
template [[host_name("append_16")]] kernel decltype(append<uint4>) append<uint4>;

}  // namespace weft
