// Threads that share a row: a simdgroup, or a whole threadgroup. Sums and maxima over them in a fixed order: a butterfly within
// each simdgroup, then the simdgroups in order. Every thread gets the result.
#pragma once

#include <metal_stdlib>

namespace weft {

struct Sum {
  template <class V>
  static V combine(V a, V b) {
    return a + b;
  }
};
struct Max {  // ignores NaN; a later sum includes it
  static float combine(float a, float b) { return metal::fmax(a, b); }
};
struct MaxOrNan {  // a NaN wins
  static float combine(float a, float b) { return a < b || b != b ? b : a; }
};
struct Min {
  static uint combine(uint a, uint b) { return a < b ? a : b; }
};

// The lower lane's value first, so that both lanes compute the same even where the operation is not symmetric.
template <class Op, class V>
inline V simd_reduce(V x, uint lane) {
#pragma unroll
  for (ushort distance = 16; distance > 0; distance /= 2) {
    const V other = metal::simd_shuffle_xor(x, distance);
    x = (lane & distance) ? Op::combine(other, x) : Op::combine(x, other);
  }
  return x;
}

constant constexpr int kTeamSlots = 64;  // of threadgroup memory, of four bytes each

// size = 32: a simdgroup of a threadgroup that may hold several. Otherwise the threadgroup is one team.
struct Team {
  int rank, size;     // of this thread
  long index, count;  // of the team, of the teams in the grid
  threadgroup uint* slots;
  int turn;

  // Every thread of the team calls this.
  template <class Op, class V>
  V reduce(V x) {
    x = simd_reduce<Op>(x, uint(rank) & 31u);
    if (size == 32) return x;
    turn ^= 32;  // the other half: all threads have passed a barrier since they read it
    if ((rank & 31) == 0) slots[turn + rank / 32] = as_type<uint>(x);
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
    x = as_type<V>(slots[turn]);
    for (int s = 1; s < size / 32; ++s) x = Op::combine(x, as_type<V>(slots[turn + s]));
    return x;
  }
  float sum(float x) { return reduce<Sum>(x); }
};

inline Team team_of(int size, uint thread_index, uint threads, uint group, uint groups, threadgroup uint* slots) {
  const int teams = int(threads) / size;  // of a threadgroup
  return {int(thread_index) % size, size, long(group) * teams + int(thread_index) / size, long(groups) * teams, slots, 0};
}

}  // namespace weft
