#include <metal_stdlib>

#include "weft/ops/document_positions/params.h"
#include "weft/tile/metal/fault.metal.h"

using namespace metal;
using namespace weft;

// Equation: positions[t] = t - documents[d], documents[d] <= t < documents[d + 1].
// Layout:   documents [N], positions [T].
// Grid:     ceil(max(N, T) / 256) groups; a thread checks documents[i] and writes positions[i], after a binary search; no sums.
// Requires: 256 threads; cumulative lengths from 0 to T: another one is reported, and positions stay within [0, T).
// Traffic:  one write of positions; documents from cache.
[[max_total_threads_per_threadgroup(256)]]
kernel void positions_of(device const int* documents [[buffer(0)]], device int* positions [[buffer(1)]],
                         constant DocumentPositionsParams& p [[buffer(2)]], device Fault& fault [[buffer(3)]],
                         uint group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]]) {
  const int i = int(group * 256 + thread_index);
  if (i < p.N) {
    const int value = documents[i], least = i == 0 ? 0 : documents[i - 1], most = i == 0 ? 0 : p.T;
    if (value < least || value > most || (i == p.N - 1 && value != p.T)) report(fault, metal_fault::bad_documents, value, i, p.T);
  }
  if (i >= p.T) return;
  int first = 0, last = p.N;  // documents[first] <= i, and documents[last] > i where there is one
  while (last - first > 1) {
    const int middle = first + (last - first) / 2;
    if (documents[middle] <= i)
      first = middle;
    else
      last = middle;
  }
  positions[i] = min(max(i - max(documents[first], 0), 0), p.T - 1);
}
