#include <metal_stdlib>

#include "weft/ops/cross_entropy/digest_term.h"
#include "weft/ops/cross_entropy/params.h"
#include "weft/tile/metal/exp_sum.metal.h"
#include "weft/tile/metal/fault.metal.h"

using namespace metal;
using namespace weft;

constant bool kGradient [[function_constant(2)]];    // dlogits is there
constant bool kCount [[function_constant(3)]];       // count is there
constant bool kAccumulate [[function_constant(4)]];  // loss += instead of loss =
constant bool kMaxima [[function_constant(5)]];      // maxima is there
constant bool kLogSums [[function_constant(6)]];     // log_sums is there

inline bool is_padding(long id, long pad_id) { return pad_id != -1 && id == pad_id; }

// Equation: shared = {count, or the targets that are not padding; those; those out of range}.
// Layout:   targets [N], count a scalar.
// Order:    integers; one threadgroup.
// Requires: a threadgroup of at least 64 threads.
// Traffic:  one read of targets.
template <class Id>
[[max_total_threads_per_threadgroup(256)]]
kernel void count_targets(device const Id* targets [[buffer(0)]], device const float* count [[buffer(1)]],
                          device CrossEntropyShared& shared [[buffer(2)]], constant CrossEntropyParams& p [[buffer(3)]],
                          device Fault& fault [[buffer(4)]], uint thread_index [[thread_index_in_threadgroup]],
                          uint threads [[threads_per_threadgroup]]) {
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(int(threads), thread_index, threads, 0, 1, slots);
  int mine = 0, wrong = 0;
  for (long r = thread_index; r < p.rows; r += threads) {
    const long id = long(targets[r]);
    if (is_padding(id, p.pad_id)) continue;
    if (id < 0 || id >= p.columns) {
      wrong = 1;
      report(fault, metal_fault::target_out_of_range, id, r, p.columns);
    }
    ++mine;
  }
  const int counted = team.reduce<Sum>(mine), bad = team.reduce<Sum>(wrong);
  if (thread_index > 0) return;
  shared.count = kCount ? *count : float(counted);
  shared.targets = counted;
  shared.wrong = bad;
}

struct RowGradient {
  float m, factor, over_count;  // dlogits = e^(x - m) factor, less over_count at the target
  int target;
};

template <class T, class G, int N>
inline void write_gradient(Chunk<T, N> piece, device G* to, Span at, RowGradient g) {
  Chunk<G, N> gradient = {};
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float probability = precise::exp(piece[i] - g.m) * g.factor;
    gradient.set(i, at.first + i == g.target ? probability - g.over_count : probability);
  }
  put<G, N>(gradient, to, at);
}

// Equation: loss_r = m - x_t + log s, s = sum(exp(x - m)); dlogits = (exp(x - m) / s - [j = t]) / count.
// Layout:   logits, dlogits [N, V] with a row stride each (dlogits may be logits), targets, losses, maxima, log_sums [N].
// Order:    a team of threads per row; maximum and sum by thread over its chunks, then over the team (team.metal.h). Rows that
//           are not held: thread by thread against its own running maximum, then the threads' sums against the row's. Team and
//           chunks follow from V alone: every variant of the kernel can have 1024 threads.
// Requires: unit stride within a row (the contract's); targets counted and found in range.
// Traffic:  one read of logits, one write of dlogits; the part of a row that a team's registers do not hold is read twice.
template <class T, class G, class Id>
[[max_total_threads_per_threadgroup(1024)]]
kernel void each_row(device const T* logits [[buffer(0)]], device const Id* targets [[buffer(1)]], device G* dlogits [[buffer(2)]],
                     device float* losses [[buffer(3)]], device float* maxima [[buffer(4)]], device float* log_sums [[buffer(5)]],
                     device const CrossEntropyShared& shared [[buffer(6)]], constant CrossEntropyParams& p [[buffer(7)]],
                     uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                     uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  const bool reads = thread_index % 32 == 0;  // once for each simdgroup
  if (simd_broadcast(reads ? shared.wrong : 0, 0)) return;
  Team team = team_of(p.team, thread_index, threads, group, groups, slots);
  const int last = turns<N>(team, p.columns), held = kChunks > 0 ? kChunks : kHeldLogits;
  const float over_count = 1.0f / simd_broadcast(reads ? shared.count : 1.0f, 0);
  for (long r = team.index; r < p.rows; r += team.count) {
    device const T* from = logits + r * p.stride;
    device G* to = kGradient ? dlogits + r * p.d_stride : nullptr;
    const Id id = simd_broadcast(team.rank % 32 == 0 ? targets[r] : Id(0), 0);
    if (is_padding(long(id), p.pad_id)) {
      if (team.rank == 0) {
        losses[r] = 0;
        if (kMaxima) maxima[r] = 0;
        if (kLogSums) log_sums[r] = 0;
      }
      if (kGradient)
        for (int k = 0; k < last; ++k) put<G, N>(chunk_of<G, N>(0), to, span<N>(team, k, p.columns));
      continue;
    }
    const int target = int(id);
    const bool owner = target / N % team.size == team.rank;  // who reads and writes that element
    const float at_target = owner ? to_float(from[target]) : 0.0f;
    Row<T, N, kHeldLogits> row;
    row.take(from, team, p.columns, held);
    const RowExpSum e = exp_sum<T, N, kHeldLogits>(team, row, from, p.columns, 1.0f, kHeldLogits);
    if (owner) {
      const float log_sum = precise::log(e.sum);
      losses[r] = (e.top - at_target) + log_sum;
      if (kMaxima) maxima[r] = e.top;
      if (kLogSums) log_sums[r] = log_sum;
    }
    if (!kGradient) continue;
    const RowGradient g = {e.m, over_count / e.sum, over_count, target};
    for (int k = 0; k < held; ++k) write_gradient<T, G, N>(row.held[k], to, span<N>(team, k, p.columns), g);
    for (int k = held; k < last; ++k) {
      const Span at = span<N>(team, k, p.columns);
      write_gradient<T, G, N>(get<T, N>(from, at), to, at, g);
    }
  }
}

// Equation: digests[r] = the digest of the bits of row r (digest_term.h); 0 where the target is padding.
// Layout:   logits [N, V] with a row stride, as unsigned integers of the element's size; targets, digests [N].
// Order:    a threadgroup per row; sums of integers, so any order gives the same.
// Requires: a threadgroup of at least 64 threads; targets counted and found in range.
// Traffic:  one read of logits.
template <class Bits, class Id>
[[max_total_threads_per_threadgroup(256)]]
kernel void digest_rows(device const Bits* logits [[buffer(0)]], device const Id* targets [[buffer(1)]], device uint* digests [[buffer(2)]],
                        constant CrossEntropyShared& shared [[buffer(3)]], constant CrossEntropyParams& p [[buffer(4)]],
                        uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                        uint group [[threadgroup_position_in_grid]], uint groups [[threadgroups_per_grid]]) {
  threadgroup uint slots[kTeamSlots];
  if (simd_broadcast(thread_index % 32 == 0 ? shared.wrong : 0, 0)) return;
  Team team = team_of(int(threads), thread_index, threads, group, groups, slots);
  for (long r = team.index; r < p.rows; r += team.count) {
    const Id id = simd_broadcast(team.rank % 32 == 0 ? targets[r] : Id(0), 0);
    const int columns = is_padding(long(id), p.pad_id) ? 0 : p.columns;
    uint sum = 0;
    for (int j = team.rank; j < columns; j += team.size) sum += digest_term(uint(logits[r * p.stride + j]), uint(j));
    sum = team.reduce<Sum>(sum);
    if (team.rank == 0) digests[r] = sum;
  }
}

// Equation: loss (+)= sum of losses / count; 0 where nothing is counted.
// Layout:   losses [N], loss a scalar.
// Order:    one threadgroup; thread t adds rows t, t + threads, ..., then the team (team.metal.h).
// Requires: a threadgroup of at least 64 threads.
// Traffic:  one read of losses.
[[max_total_threads_per_threadgroup(256)]]
kernel void total(device const float* losses [[buffer(0)]], device float* loss [[buffer(1)]],
                  constant CrossEntropyShared& shared [[buffer(2)]], constant CrossEntropyParams& p [[buffer(3)]],
                  uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  threadgroup uint slots[kTeamSlots];
  if (shared.wrong) return;
  Team team = team_of(int(threads), thread_index, threads, 0, 1, slots);
  float sum = 0;
  for (long r = thread_index; r < p.rows; r += threads) sum += losses[r];
  sum = team.sum(sum);
  if (thread_index > 0) return;
  const float mean = shared.targets ? sum / shared.count : 0.0f;
  *loss = kAccumulate ? *loss + mean : mean;
}

#define WEFT_CROSS_ENTROPY_IDS(suffix, Id) template [[host_name("count" suffix)]] kernel decltype(count_targets<Id>) count_targets<Id>;
WEFT_CROSS_ENTROPY_IDS("_i32", int)
WEFT_CROSS_ENTROPY_IDS("_u32", uint)
#define WEFT_CROSS_ENTROPY_DIGESTS(suffix, Bits, Id) \
  template [[host_name("digest" suffix)]] kernel decltype(digest_rows<Bits, Id>) digest_rows<Bits, Id>;
WEFT_CROSS_ENTROPY_DIGESTS("_f32_i32", uint, int)
WEFT_CROSS_ENTROPY_DIGESTS("_f32_u32", uint, uint)
WEFT_CROSS_ENTROPY_DIGESTS("_bf16_i32", ushort, int)
WEFT_CROSS_ENTROPY_DIGESTS("_bf16_u32", ushort, uint)
#define WEFT_CROSS_ENTROPY(suffix, T, G, Id) \
  template [[host_name("each_row" suffix)]] kernel decltype(each_row<T, G, Id>) each_row<T, G, Id>;
WEFT_CROSS_ENTROPY("_f32_i32", float, float, int)
WEFT_CROSS_ENTROPY("_f32_u32", float, float, uint)
WEFT_CROSS_ENTROPY("_f32_bf16_i32", float, bfloat, int)
WEFT_CROSS_ENTROPY("_f32_bf16_u32", float, bfloat, uint)
WEFT_CROSS_ENTROPY("_bf16_i32", bfloat, bfloat, int)
WEFT_CROSS_ENTROPY("_bf16_u32", bfloat, bfloat, uint)
