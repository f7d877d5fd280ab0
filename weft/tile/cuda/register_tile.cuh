// Tiles of f32 sums in the registers of a warp, and how attention reads them: rows, columns, the causal mask, rounding, storing.
//
// A tile is a grid of 16x8 fragments as mma.sync lays them out. Lane l holds four elements of each, at rows l / 4 and l / 4 + 8 and
// columns 2 (l % 4) and 2 (l % 4) + 1: a row lies in the four lanes of a quad, and a lane has two rows of a fragment, its halves.
#pragma once

#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/heads.cuh"
#include "weft/tile/cuda/math.cuh"
#include "weft/tile/cuda/mma.cuh"

namespace weft::cuda {

// Sum and maximum of a row: over the quad that holds it, by butterfly.
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  x += __shfl_xor_sync(0xffffffffu, x, 2);
  return x;
}
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
  return x;
}

template <int kRows_, int kColumns_>
struct RegisterTile {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kM = kRows / 16, kN = kColumns / 8;
  static_assert(kRows % 16 == 0 && kColumns % 16 == 0);  // operands come in pairs of fragments
  FragmentC at[kM][kN];

  // Position of element i of fragment (m, n) in the tile.
  __device__ __forceinline__ static int row(int m, int i, int lane) { return m * 16 + FragmentC::row(i, lane); }
  __device__ __forceinline__ static int column(int n, int i, int lane) { return n * 8 + FragmentC::column(i, lane); }

  // Calls f(row, column, element) for every element that this lane holds.
  template <class F>
  __device__ __forceinline__ void for_each(int lane, F&& f) {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) f(row(m, i, lane), column(n, i, lane), at[m][n].x[i]);
  }

  // Scores of keys that come after their query become -inf. query0, key0: the query of row 0 and the key of column 0.
  __device__ __forceinline__ void mask_above_diagonal(int query0, int key0, int lane) {
    for_each(lane, [&](int row, int column, float& score) {
      if (key0 + column > query0 + row) score = Max::kNone;
    });
  }

  // Scores of keys up to their query's row on a diagonal become -inf: key0 + column <= query0 + row. With query0 a window before the
  // query of row 0, these are the keys that the window excludes.
  __device__ __forceinline__ void mask_below_diagonal(int query0, int key0, int lane) {
    for_each(lane, [&](int row, int column, float& score) {
      if (key0 + column <= query0 + row) score = Max::kNone;
    });
  }

  // Multiplies a lane's row of fragment row m by x.
  __device__ __forceinline__ void scale_row(int m, int half, float x) {
#pragma unroll
    for (int n = 0; n < kN; ++n) at[m][n].x[2 * half] *= x, at[m][n].x[2 * half + 1] *= x;
  }

  // Rows [16 m, 16 m + 16), columns [column, column + 16), rounded to bf16, as the left operand of the next matmul.
  __device__ __forceinline__ FragmentA to_bf16(int m, int column) const { return as_operand(at[m][column / 8], at[m][column / 8 + 1]); }

  // A lane's row of fragment row m times x, rounded to bf16, to row `row` of a tile in shared memory.
  template <class Shared>
  __device__ __forceinline__ void put_row(const Shared& to, int row, int m, int half, float x, int lane) const {
#pragma unroll
    for (int n = 0; n < kN; ++n) to.put(row, column(n, 0, lane), pack(at[m][n].x[2 * half] * x, at[m][n].x[2 * half + 1] * x));
  }

  // The tile as bf16(x scale) to memory, element by element: its row 0 is row `row0` of [B, T, H, D] at (b, h), its column 0 column
  // `column0`; `rows` and `columns` of that matrix exist.
  __device__ __forceinline__ void store(const Heads<__nv_bfloat16>& to, int b, int h, int row0, int column0, int rows, int columns,
                                        float scale, int lane) {
    for_each(lane, [&](int row, int column, float x) {
      if (row0 + row < rows && column0 + column < columns) to.row(b, row0 + row, h)[column0 + column] = __float2bfloat16_rn(x * scale);
    });
  }

  // The tile as it lies in registers, to and from f32 memory through L2 alone: float4 f of a lane is fragment f, 32 lanes side by side.
  __device__ __forceinline__ void load_fragments(const float4* from) {
#pragma unroll
    for (int f = 0; f < kM * kN; ++f) *reinterpret_cast<float4*>(at[f / kN][f % kN].x) = __ldcg(from + f * 32);
  }
  __device__ __forceinline__ void store_fragments(float4* to) {
#pragma unroll
    for (int f = 0; f < kM * kN; ++f) __stcg(to + f * 32, *reinterpret_cast<float4*>(at[f / kN][f % kN].x));
  }
};

// c += a b^T: rows of `a` from `row` on, rows of `b` from `column` on, over all columns of both.
template <int kRows, int kColumns, class A, class B>
__device__ __forceinline__ void multiply_add_transposed(RegisterTile<kRows, kColumns>& c, const A& a, int row, const B& b, int column) {
  using C = RegisterTile<kRows, kColumns>;
#pragma unroll
  for (int d = 0; d < A::kColumns; d += 16) {
    FragmentA left[C::kM];
#pragma unroll
    for (int m = 0; m < C::kM; ++m) left[m] = a.a(row + m * 16, d);
#pragma unroll
    for (int n = 0; n < C::kN; n += 2) {
      FragmentB right[2];
      b.b_transposed(right, column + n * 8, d);
#pragma unroll
      for (int m = 0; m < C::kM; ++m) {
        multiply_add(c.at[m][n], left[m], right[0]);
        multiply_add(c.at[m][n + 1], left[m], right[1]);
      }
    }
  }
}

// c += bf16(a) b: a in registers, all rows of `b`.
template <int kRows, int kColumns, int kDepth, class B>
__device__ __forceinline__ void multiply_add(RegisterTile<kRows, kColumns>& c, const RegisterTile<kRows, kDepth>& a, const B& b) {
  using C = RegisterTile<kRows, kColumns>;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    FragmentA left[C::kM];
#pragma unroll
    for (int m = 0; m < C::kM; ++m) left[m] = a.to_bf16(m, k);
#pragma unroll
    for (int n = 0; n < C::kN; n += 2) {
      FragmentB right[2];
      b.b(right, k, n * 8);
#pragma unroll
      for (int m = 0; m < C::kM; ++m) {
        multiply_add(c.at[m][n], left[m], right[0]);
        multiply_add(c.at[m][n + 1], left[m], right[1]);
      }
    }
  }
}

// c += a b: rows of `a` from `row` on, columns of `b` from `column` on, over kDepth columns of `a`.
template <int kDepth, int kRows, int kColumns, class A, class B>
__device__ __forceinline__ void multiply_add(RegisterTile<kRows, kColumns>& c, const A& a, int row, const B& b, int column) {
  using C = RegisterTile<kRows, kColumns>;
#pragma unroll
  for (int k = 0; k < kDepth; k += 16) {
    FragmentA left[C::kM];
#pragma unroll
    for (int m = 0; m < C::kM; ++m) left[m] = a.a(row + m * 16, k);
#pragma unroll
    for (int n = 0; n < C::kN; n += 2) {
      FragmentB right[2];
      b.b(right, k, column + n * 8);
#pragma unroll
      for (int m = 0; m < C::kM; ++m) {
        multiply_add(c.at[m][n], left[m], right[0]);
        multiply_add(c.at[m][n + 1], left[m], right[1]);
      }
    }
  }
}

// The scores of a row in one tile of keys become weights 2^(to_log2 (score - maximum)). score(g, i): this lane's left (i = 0) or right
// score in group g of eight keys. Returns the sum of the lane's weights: the left ones in order plus the right ones in order. Forward
// passes and decoding compute weights here alone, so that a row has the same bits in all of them.
template <int kGroups, class Score>
__device__ __forceinline__ float scores_to_weights(const ScoreBase& base, Score&& score) {
  float more[2] = {};
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& x = score(g, i);
      x = base.weight(x);
      more[i] += x;
    }
  return more[0] + more[1];
}

// A row's running maximum, the sum of its weights in this lane, and the factor by which sums over earlier tiles shrink (Milakov and
// Gimelshein, 2018). Where nothing is unmasked yet, a tile changes nothing: its weights are 0, the factor is 0, and so are the sums.
struct RunningRow {
  float largest = Max::kNone, sum = 0, shrink = 1;

  // The scores of one more tile become weights; score: as scores_to_weights.
  template <int kGroups, class Score>
  __device__ __forceinline__ void update(float to_log2, Score&& score) {
    float most = largest;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) most = fmaxf(most, fmaxf(score(g, 0), score(g, 1)));
    most = quad_max(most);
    const ScoreBase base(most, to_log2);
    shrink = base.weight(largest);
    largest = most;
    const float more = scores_to_weights<kGroups>(base, score);
    sum = fmaf(sum, shrink, more);
  }
};

// The scores of a tile of keys become weights; rows of `o`, sums of weighted values so far, shrink where a maximum moved.
template <int kRows, int kKeys, int kD>
__device__ __forceinline__ void scores_to_weights(RegisterTile<kRows, kKeys>& s, RegisterTile<kRows, kD>& o,
                                                  RunningRow (&rows)[kRows / 16][2], float to_log2) {
#pragma unroll
  for (int m = 0; m < s.kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      RunningRow& row = rows[m][half];
      row.update<kKeys / 8>(to_log2, [&](int g, int i) -> float& { return s.at[m][g].x[2 * half + i]; });
      if (__any_sync(0xffffffffu, row.shrink != 1.0f)) o.scale_row(m, half, row.shrink);  // the maximum seldom moves after the first tiles
    }
}

}  // namespace weft::cuda
