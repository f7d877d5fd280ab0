#include <metal_stdlib>

#include "weft/ops/expert_order/params.h"
#include "weft/tile/metal/fault.metal.h"

using namespace metal;
using namespace weft;

constant constexpr int kThreads = 256;

struct Counted {
  int before, total;  // sum over the threads before this one; sum over all
};

// Exclusive prefix sum and total of `own` over the threads of the threadgroup.
inline Counted counts_before(int own, threadgroup int* simdgroups, uint thread_index) {
  const int upto = simd_prefix_inclusive_sum(own);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (thread_index % 32 == 31) simdgroups[thread_index / 32] = upto;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  Counted c = {upto - own, 0};
  for (uint s = 0; s < kThreads / 32; ++s) {
    if (s < thread_index / 32) c.before += simdgroups[s];
    c.total += simdgroups[s];
  }
  return c;
}

inline int expert_at(device const int* ids, int position, int experts) {
  const int id = ids[position];
  return id < 0 || id >= experts ? 0 : id;
}

// Equation: a stable counting sort of ids: starts, rows, and places, the inverse of rows.
// Layout:   ids, places [P], rows [P], starts [E + 1].
// Order:    integers only. One threadgroup per expert: it counts the smaller ids, then ranks its own in order of position.
// Requires: 256 threads; ids in [0, E); any other id is reported and treated as expert 0.
// Traffic:  ids twice per expert, from cache; one write of each result.
[[max_total_threads_per_threadgroup(256)]]
kernel void sort_by_expert(device const int* ids [[buffer(0)]], device int* starts [[buffer(1)]], device int* rows [[buffer(2)]],
                           device int* places [[buffer(3)]], constant ExpertOrderParams& p [[buffer(4)]], device Fault& fault [[buffer(5)]],
                           uint group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {
  threadgroup int simdgroups[kThreads / 32];
  const int expert = int(group);
  int below = 0;
  for (int position = int(thread_index); position < p.P; position += kThreads) {
    const int id = ids[position];
    if (expert == 0 && (id < 0 || id >= p.E)) report(fault, metal_fault::id_out_of_range, id, position, p.E);
    below += expert_at(ids, position, p.E) < expert ? 1 : 0;
  }
  int next = counts_before(below, simdgroups, thread_index).total;
  if (thread_index == 0) {
    starts[expert] = next;
    if (expert == 0) starts[p.E] = p.P;
  }
  for (int first = 0; first < p.P; first += kThreads) {
    const int position = first + int(thread_index);
    const bool own = position < p.P && expert_at(ids, min(position, p.P - 1), p.E) == expert;
    const Counted c = counts_before(own ? 1 : 0, simdgroups, thread_index);
    if (own) {
      rows[next + c.before] = position;
      places[position] = next + c.before;
    }
    next += c.total;
  }
}
