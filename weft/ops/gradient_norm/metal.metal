#include <metal_stdlib>

#include "weft/ops/gradient_norm/params.h"
#include "weft/tile/metal/team.metal.h"
#include "weft/tile/metal/vector.metal.h"

using namespace metal;
using namespace weft;

constant constexpr long kPiece = 32768;

// Equation: partial[piece] = sum of g^2 over the piece.
// Layout:   a gradient, packed; one float per piece of 32768 elements.
// Order:    by thread over its vectors, then over the threadgroup (team.metal.h).
// Requires: nothing more.
// Traffic:  one read of the gradient.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void sum_piece(device const T* g [[buffer(0)]], device float* partial [[buffer(1)]],
                      constant GradientNormPieceParams& p [[buffer(2)]], uint thread_index [[thread_index_in_threadgroup]],
                      uint threads [[threads_per_threadgroup]], uint group [[threadgroup_position_in_grid]]) {
  constexpr int N = per_vector<T>();
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(int(threads), thread_index, threads, group, 1, slots);
  const int length = int(min(kPiece, p.count - long(group) * kPiece));
  device const T* from = g + long(group) * kPiece;
  float sum = 0;
  for (int i = team.rank * N; i < length; i += team.size * N) {
    const Chunk<T, N> piece = load_chunk<T, N>(from + i, length - i, p.aligned);
#pragma unroll
    for (int j = 0; j < N; ++j) sum = fma(piece[j], piece[j], sum);
  }
  sum = team.sum(sum);
  if (team.rank == 0) partial[group] = sum;
}

// Equation: norm = sqrt(sum of partial), clip = min(1, max_norm / (norm + 1e-6)).
// Layout:   partial [pieces], norm and clip scalars.
// Order:    one threadgroup: thread t adds pieces t, t + threads, ..., then the team (team.metal.h).
// Requires: nothing more.
// Traffic:  one read of partial.
[[max_total_threads_per_threadgroup(256)]]
kernel void finish(device const float* partial [[buffer(0)]], device float* norm [[buffer(1)]], device float* clip [[buffer(2)]],
                   constant GradientNormParams& p [[buffer(3)]], uint thread_index [[thread_index_in_threadgroup]],
                   uint threads [[threads_per_threadgroup]]) {
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(int(threads), thread_index, threads, 0, 1, slots);
  float sum = 0;
  for (long i = thread_index; i < p.pieces; i += threads) sum += partial[i];
  const float total = precise::sqrt(team.sum(sum)), ratio = p.max_norm / (total + 1e-6f);
  if (thread_index > 0) return;
  *norm = total;
  *clip = p.max_norm <= 0 || ratio > 1 ? 1.0f : ratio;  // a NaN is not above 1: it stays
}

template [[host_name("sum_piece_f32")]] kernel decltype(sum_piece<float>) sum_piece<float>;
template [[host_name("sum_piece_bf16")]] kernel decltype(sum_piece<bfloat>) sum_piece<bfloat>;
