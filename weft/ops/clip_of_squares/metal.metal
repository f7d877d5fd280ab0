#include <metal_stdlib>

#include "weft/ops/clip_of_squares/params.h"
#include "weft/tile/metal/team.metal.h"

using namespace metal;
using namespace weft;

// Equation: norm = sqrt(sum of squares), clip = min(1, max_norm / (norm + 1e-6)).
// Layout:   squares [P], norm and clip scalars.
// Order:    one threadgroup: thread t adds pieces t, t + threads, ..., then the team (team.metal.h).
// Requires: nothing more. No pieces: norm 0. Without a max_norm above 0 clip is 1; a NaN shows in both.
// Traffic:  one read of squares.
[[max_total_threads_per_threadgroup(256)]]
kernel void add_pieces(device const float* squares [[buffer(0)]], device float* norm [[buffer(1)]], device float* clip [[buffer(2)]],
                       constant ClipOfSquaresParams& p [[buffer(3)]], uint thread_index [[thread_index_in_threadgroup]],
                       uint threads [[threads_per_threadgroup]]) {
  threadgroup uint slots[kTeamSlots];
  Team team = team_of(int(threads), thread_index, threads, 0, 1, slots);
  float sum = 0;
  for (long i = thread_index; i < p.pieces; i += threads) sum += squares[i];
  const float total = precise::sqrt(team.sum(sum)), ratio = p.max_norm / (total + 1e-6f);
  if (thread_index > 0) return;
  *norm = total;
  *clip = p.max_norm <= 0 || ratio > 1 ? 1.0f : ratio;  // a NaN is not above 1: it stays
}
