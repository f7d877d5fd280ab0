#include <metal_stdlib>

#include "weft/ops/gradient_squares/params.h"
#include "weft/tile/metal/team.metal.h"
#include "weft/tile/metal/vector.metal.h"

using namespace metal;
using namespace weft;

constant constexpr long kPiece = kMetalNormPiece;

// Equation: squares[p] = sum of g^2 over piece p.
// Layout:   a gradient, packed, and its pieces of squares.
// Order:    by thread over its vectors, then over the threadgroup (team.metal.h).
// Requires: nothing more.
// Traffic:  one read of the gradient, one write of squares.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void sum_piece(device const T* g [[buffer(0)]], device float* squares [[buffer(1)]], constant GradientSquaresParams& p [[buffer(2)]],
                      uint thread_index [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]],
                      uint group [[threadgroup_position_in_grid]]) {
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
  if (team.rank == 0) squares[group] = sum;
}

template [[host_name("sum_piece_f32")]] kernel decltype(sum_piece<float>) sum_piece<float>;
template [[host_name("sum_piece_bf16")]] kernel decltype(sum_piece<bfloat>) sum_piece<bfloat>;
