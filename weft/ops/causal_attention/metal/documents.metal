#include <metal_stdlib>

#include "weft/ops/causal_attention/params.h"
#include "weft/tile/metal/fault.metal.h"

using namespace metal;
using namespace weft;

constant constexpr int kThreads = 256;

// Whether the value at i may be there.
inline bool is_cumulative(device const int* documents, int i, constant DocumentsParams& p) {
  const int length = documents[i], least = i == 0 ? 0 : documents[i - 1], most = i == 0 ? 0 : p.T;
  return least <= length && length <= most && (i < p.documents || length == p.T);
}

// Equation: checked = documents if 0 = documents[0] <= documents[1] <= ... <= documents[n] = T; else zeros, documents without tokens.
// Layout:   documents, checked [n + 1].
// Grid:     one group; a thread has every 256th value.
// Requires: 256 threads. The first wrong value is reported.
// Traffic:  documents three times, checked once.
[[max_total_threads_per_threadgroup(256)]]
kernel void check_documents(device const int* documents [[buffer(0)]], device int* checked [[buffer(1)]],
                            constant DocumentsParams& p [[buffer(2)]], device Fault& fault [[buffer(3)]],
                            uint thread_index [[thread_index_in_threadgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                            uint lane [[thread_index_in_simdgroup]]) {
  threadgroup int wrong_of[kThreads / 32];
  const int none = p.documents + 1;
  int wrong = none;
  for (int i = int(thread_index); i <= p.documents; i += kThreads)
    if (!is_cumulative(documents, i, p)) wrong = min(wrong, i);
  wrong = simd_min(wrong);
  if (lane == 0) wrong_of[simd] = wrong;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (int i = 0; i < kThreads / 32; ++i) wrong = min(wrong, wrong_of[i]);
  for (int i = int(thread_index); i <= p.documents; i += kThreads) checked[i] = wrong == none ? documents[i] : 0;
  if (thread_index == 0 && wrong != none) report(fault, metal_fault::bad_documents, documents[wrong], wrong, p.T);
}
