// Both passes on plain f32 multiply-adds: sixteen by sixteen threads share tiles in shared memory, each computing a small
// square of every matmul. For f32 operands; and for bf16 ones if a tile on the diagonal holds an infinity or NaN, since tensor cores
// would multiply it by the zero of a masked score. Masked terms are left out here, not multiplied by zero.
#pragma once

#include "weft/ops/causal_attention/cuda/sequence.cuh"
#include "weft/ops/causal_attention/cuda/tiles.h"
#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/heads.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {

// Blocks take pieces of work one after the other. `only` flags the work: its first element whether there is any, then one for each
// [sequence, Hkv]; absent: all. A launch without work is a few blocks that return at once.
struct SimtWork {
  SequenceTile at;
  int h;
};
template <bool kOptions, int kTile, class Params, class Body>
__device__ __forceinline__ void for_each_simt_work(const Params& p, int heads, int heads_per_flag, Body&& body) {
  if (p.only && p.only[0] == 0) return;
  const int slots = p.slots;
  for (int64_t i = blockIdx.x; i < int64_t(slots) * heads * p.B; i += gridDim.x) {
    const SequenceTile at = tile_of_slot<kOptions, kTile>(p.rule, slots - 1 - int(i % slots), int(i / slots / heads), p.length);
    const SimtWork work{at, int(i / slots % heads)};
    if (kOptions && at.tile * kTile >= at.length) continue;
    if (p.only && p.only[1 + at.number * (heads / heads_per_flag) + work.h / heads_per_flag] == 0) continue;
    __syncthreads();
    body(work);
  }
}

template <class T>
struct SimtForward {
  Heads<const T> q, k, v;
  Heads<T> o;
  float* lse;            // [B, H, T]; absent: not wanted
  const int32_t* start;  // [B]: keys before the first query; absent: none
  const int* only;
  int length, B, H, group, D, most;
  float scale;
  int slots;  // tiles of a sequence of T tokens; with documents, see sequence.cuh
  AttentionRule rule;
};

template <class T>
struct SimtBackward {
  Heads<const T> q, k, v, dout;
  Heads<T> dq, dk, dv;
  const float *lse, *delta;
  const int* only;
  int length, B, H, group, D;
  float scale;
  int slots;
  AttentionRule rule;
};

template <class Tiles, class T>
__device__ __forceinline__ void load_rows(float* to, const T* from, int64_t stride, int rows, int D) {
  for (int at = int(threadIdx.x); at < Tiles::kB * Tiles::kD; at += 256) {
    const int row = at / Tiles::kD, d = at % Tiles::kD;
    to[row * Tiles::kRow + d] = row < rows && d < D ? to_float(from[row * stride + d]) : 0.0f;
  }
}

// s[a][b] = rows y + 16 a of x dot rows x + 16 b of y.
template <class Tiles, int kSide>
__device__ __forceinline__ void dot_rows(float (&s)[kSide][kSide], const float* x, const float* y) {
  const int ty = int(threadIdx.x) / 16, tx = int(threadIdx.x) % 16;
#pragma unroll
  for (int a = 0; a < kSide; ++a)
#pragma unroll
    for (int b = 0; b < kSide; ++b) s[a][b] = 0;
#pragma unroll 8
  for (int d = 0; d < Tiles::kD; ++d) {
    float left[kSide], right[kSide];
#pragma unroll
    for (int a = 0; a < kSide; ++a) left[a] = x[(ty + 16 * a) * Tiles::kRow + d], right[a] = y[(tx + 16 * a) * Tiles::kRow + d];
#pragma unroll
    for (int a = 0; a < kSide; ++a)
#pragma unroll
      for (int b = 0; b < kSide; ++b) s[a][b] = fmaf(left[a], right[b], s[a][b]);
  }
}

// sum[a][c] += sum over j of weight(y + 16 a, j) rows[j][x + 16 c], j in order, where inside(y + 16 a, j).
template <class Tiles, int kSide, class Weight, class Inside>
__device__ __forceinline__ void add_rows(float (&sum)[kSide][Tiles::kD / 16], const float* rows, Weight&& weight, Inside&& inside) {
  const int ty = int(threadIdx.x) / 16, tx = int(threadIdx.x) % 16;
#pragma unroll 4
  for (int j = 0; j < Tiles::kB; ++j) {
    float w[kSide];
    bool in[kSide];
#pragma unroll
    for (int a = 0; a < kSide; ++a) w[a] = weight(ty + 16 * a, j), in[a] = inside(ty + 16 * a, j);
#pragma unroll
    for (int c = 0; c < Tiles::kD / 16; ++c) {
      const float x = rows[j * Tiles::kRow + tx + 16 * c];
#pragma unroll
      for (int a = 0; a < kSide; ++a) sum[a][c] = in[a] ? fmaf(w[a], x, sum[a][c]) : sum[a][c];
    }
  }
}

// Over the sixteen threads that share a row.
template <class Op>
__device__ __forceinline__ float row_reduce(float x, Op op) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2) x = op(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}

// The scores of a row in one tile of keys, thread x of sixteen having those of columns x + 16 c, become weights e^(s - maximum);
// `largest`, the row's running maximum, moves. Sums over earlier tiles are multiplied by shrink, then the tile's sum, more, is added.
// Decoding computes weights here, too, so that a row has the same bits.
struct SimtWeights {
  float shrink, more;
};
template <int kSide>
__device__ __forceinline__ SimtWeights simt_weights(float (&s)[kSide], float& largest) {
  float most = largest, more = 0;
#pragma unroll
  for (int c = 0; c < kSide; ++c) most = Max()(most, s[c]);
  most = row_reduce(most, Max());
  const float shift = most == Max::kNone ? 0.0f : most, shrink = expf(largest - shift);
#pragma unroll
  for (int c = 0; c < kSide; ++c) {
    s[c] = expf(s[c] - shift);
    more += s[c];
  }
  largest = most;
  return {shrink, row_reduce(more, Sum())};
}

// Equation: o = softmax(scale q k^T) v over the keys up to start + query; lse = log of the sum of exponentials. With options: those of
//           the op, and no start.
// Layout:   as the bf16 kernel, f32.
// Order:    a block per (tile of queries, head, sequence); tiles of keys ascending, keys in order within a tile.
// Requires: D <= kD, 256 threads.
// Traffic:  q once, k and v once per tile of queries, o and lse once.
template <class T, class Tiles, bool kOptions>
__device__ __forceinline__ void forward_tile(const SimtForward<T>& p, SimtWork work) {
  constexpr int kD = Tiles::kD, kB = Tiles::kB, kSide = Tiles::kSide, kRow = Tiles::kRow;
  extern __shared__ float shared[];
  float *q = shared, *k = q + kB * kRow, *v = k + kB * kRow, *probability = v + kB * kRow;
  const int m0 = work.at.tile * kB, h = work.h, b = work.at.b, hkv = h / p.group, first = work.at.first, length = work.at.length;
  const int ty = int(threadIdx.x) / 16, tx = int(threadIdx.x) % 16;
  const int before = p.start ? p.start[b] : 0, keys = before + length;
  if (before < 0 || before > p.most - length) return;
  load_rows<Tiles>(q, p.q.row(b, first + m0, h), p.q.time, length - m0, p.D);
  float o[kSide][kD / 16] = {}, largest[kSide], sum[kSide] = {};
#pragma unroll
  for (int a = 0; a < kSide; ++a) largest[a] = Max::kNone;
  for (int n0 = p.rule.template first_key_tile<kOptions, kB>(m0) * kB; n0 < min(keys, before + m0 + kB); n0 += kB) {
    __syncthreads();
    load_rows<Tiles>(k, p.k.row(b, first + n0, hkv), p.k.time, keys - n0, p.D);
    load_rows<Tiles>(v, p.v.row(b, first + n0, hkv), p.v.time, keys - n0, p.D);
    __syncthreads();
    float s[kSide][kSide];
    dot_rows<Tiles>(s, q, k);
#pragma unroll
    for (int a = 0; a < kSide; ++a) {
      const int query = before + m0 + ty + 16 * a;
#pragma unroll
      for (int c = 0; c < kSide; ++c) {
        const int key = n0 + tx + 16 * c;
        const bool seen = key <= query && key < keys && !p.rule.template window_cuts<kOptions>(query, key);
        s[a][c] = !seen ? Max::kNone : p.rule.template capped<kOptions>() ? p.rule.cap(s[a][c]) : s[a][c] * p.scale;
      }
      const auto [shrink, more] = simt_weights(s[a], largest[a]);
#pragma unroll
      for (int c = 0; c < kSide; ++c) probability[(ty + 16 * a) * (kB + 1) + tx + 16 * c] = s[a][c];
      sum[a] = fmaf(sum[a], shrink, more);
#pragma unroll
      for (int c = 0; c < kD / 16; ++c) o[a][c] *= shrink;
    }
    __syncthreads();
    add_rows<Tiles>(
        o, v, [&](int row, int j) { return probability[row * (kB + 1) + j]; },
        [&](int row, int j) { return n0 + j <= before + m0 + row && !p.rule.template window_cuts<kOptions>(m0 + row, n0 + j); });
  }
#pragma unroll
  for (int a = 0; a < kSide; ++a) {
    const int query = m0 + ty + 16 * a;
    if (query >= length) continue;
#pragma unroll
    for (int c = 0; c < kD / 16; ++c)
      if (tx + 16 * c < p.D) p.o.row(b, first + query, h)[tx + 16 * c] = from_float<T>(o[a][c] / sum[a]);
    if (p.lse && tx == 0) p.lse[(int64_t(b) * p.H + h) * p.length + first + query] = largest[a] + logf(sum[a]);
  }
}

// All five as forward_tile, for each piece of work.
template <class T, class Tiles, bool kOptions>
__global__ void __launch_bounds__(256) causal_forward_simt(const SimtForward<T> p) {
  for_each_simt_work<kOptions, Tiles::kB>(p, p.H, p.group, [&](SimtWork work) { forward_tile<T, Tiles, kOptions>(p, work); });
}

// P and dS of a tile of queries and a tile of keys, [query][key], to shared memory. rows: where lse and delta of the sequence's `length`
// queries begin.
template <class T, class Tiles, bool kOptions>
__device__ __forceinline__ void simt_gradients(const SimtBackward<T>& p, const float* q, const float* k, const float* v, const float* dout,
                                               int64_t rows, int length, int m0, int n0, float* probability, float* dscore) {
  constexpr int kB = Tiles::kB, kSide = Tiles::kSide;
  const int ty = int(threadIdx.x) / 16, tx = int(threadIdx.x) % 16;
  float s[kSide][kSide], dp[kSide][kSide];
  dot_rows<Tiles>(s, q, k);
  dot_rows<Tiles>(dp, dout, v);
#pragma unroll
  for (int a = 0; a < kSide; ++a) {
    const int query = m0 + ty + 16 * a;
    const float lse = query < length ? p.lse[rows + query] : 0.0f, delta = query < length ? p.delta[rows + query] : 0.0f;
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      const int key = n0 + tx + 16 * c, at = (ty + 16 * a) * (kB + 1) + tx + 16 * c;
      const bool seen = key <= query && query < length && !p.rule.template window_cuts<kOptions>(query, key);
      const float ratio = p.rule.template capped<kOptions>() ? p.rule.capped_ratio(s[a][c]) : 0.0f;
      const float score = p.rule.template capped<kOptions>() ? p.rule.soft_cap * ratio : s[a][c] * p.scale;
      const float e = seen ? expf(score - lse) : 0.0f;
      probability[at] = e;
      dscore[at] = e * (dp[a][c] - delta);
      if (p.rule.template capped<kOptions>() && seen) dscore[at] *= fmaf(-ratio, ratio, 1.0f);
    }
  }
}

// Equation: dq = scale sum over keys of ds k.
// Layout:   as the forward, delta [B, H, T].
// Order:    a block per (tile of queries, head, sequence); keys ascending.
// Requires: D <= kD, 256 threads.
// Traffic:  q, do once, k and v once per tile of queries, dq once.
template <class T, class Tiles, bool kOptions>
__device__ __forceinline__ void dq_tile(const SimtBackward<T>& p, SimtWork work) {
  constexpr int kD = Tiles::kD, kB = Tiles::kB, kSide = Tiles::kSide, kRow = Tiles::kRow;
  extern __shared__ float shared[];
  float *q = shared, *dout = q + kB * kRow, *k = dout + kB * kRow, *v = k + kB * kRow, *probability = v + kB * kRow,
        *dscore = probability + kB * (kB + 1);
  const int m0 = work.at.tile * kB, h = work.h, b = work.at.b, hkv = h / p.group, first = work.at.first, length = work.at.length;
  const int ty = int(threadIdx.x) / 16, tx = int(threadIdx.x) % 16;
  const int64_t rows = (int64_t(b) * p.H + h) * p.length + first;
  load_rows<Tiles>(q, p.q.row(b, first + m0, h), p.q.time, length - m0, p.D);
  load_rows<Tiles>(dout, p.dout.row(b, first + m0, h), p.dout.time, length - m0, p.D);
  float dq[kSide][kD / 16] = {};
  for (int n0 = p.rule.template first_key_tile<kOptions, kB>(m0) * kB; n0 <= m0 && n0 < length; n0 += kB) {
    __syncthreads();
    load_rows<Tiles>(k, p.k.row(b, first + n0, hkv), p.k.time, length - n0, p.D);
    load_rows<Tiles>(v, p.v.row(b, first + n0, hkv), p.v.time, length - n0, p.D);
    __syncthreads();
    simt_gradients<T, Tiles, kOptions>(p, q, k, v, dout, rows, length, m0, n0, probability, dscore);
    __syncthreads();
    add_rows<Tiles>(
        dq, k, [&](int row, int j) { return dscore[row * (kB + 1) + j]; },
        [&](int row, int j) { return n0 + j <= m0 + row && !p.rule.template window_cuts<kOptions>(m0 + row, n0 + j); });
  }
#pragma unroll
  for (int a = 0; a < kSide; ++a)
#pragma unroll
    for (int c = 0; c < kD / 16; ++c)
      if (m0 + ty + 16 * a < length && tx + 16 * c < p.D)
        p.dq.row(b, first + m0 + ty + 16 * a, h)[tx + 16 * c] = from_float<T>(dq[a][c] * p.scale);
}

// All five as dq_tile, for each piece of work.
template <class T, class Tiles, bool kOptions>
__global__ void __launch_bounds__(256) causal_dq_simt(const SimtBackward<T> p) {
  for_each_simt_work<kOptions, Tiles::kB>(p, p.H, p.group, [&](SimtWork work) { dq_tile<T, Tiles, kOptions>(p, work); });
}

// Equation: dv = p^T do, dk = scale ds^T q, summed over the heads that share a key head.
// Layout:   as the forward, delta [B, H, T].
// Order:    a block per (tile of keys, key head, sequence); heads of the group in order, queries ascending.
// Requires: D <= kD, 256 threads.
// Traffic:  k, v once, q and do once per tile of keys, dk and dv once.
template <class T, class Tiles, bool kOptions>
__device__ __forceinline__ void dkv_tile(const SimtBackward<T>& p, SimtWork work) {
  constexpr int kD = Tiles::kD, kB = Tiles::kB, kSide = Tiles::kSide, kRow = Tiles::kRow;
  extern __shared__ float shared[];
  float *q = shared, *dout = q + kB * kRow, *k = dout + kB * kRow, *v = k + kB * kRow, *probability = v + kB * kRow,
        *dscore = probability + kB * (kB + 1);
  const int n0 = work.at.tile * kB, hkv = work.h, b = work.at.b, first = work.at.first, length = work.at.length;
  const int ty = int(threadIdx.x) / 16, tx = int(threadIdx.x) % 16;
  const int past = kOptions ? min(length, n0 + kB - 1 + p.rule.window) : length;  // of the queries that attend to a key of the tile
  load_rows<Tiles>(k, p.k.row(b, first + n0, hkv), p.k.time, length - n0, p.D);
  load_rows<Tiles>(v, p.v.row(b, first + n0, hkv), p.v.time, length - n0, p.D);
  float dk[kSide][kD / 16] = {}, dv[kSide][kD / 16] = {};
  for (int h = hkv * p.group; h < (hkv + 1) * p.group; ++h)
    for (int m0 = n0; m0 < past; m0 += kB) {
      __syncthreads();
      load_rows<Tiles>(q, p.q.row(b, first + m0, h), p.q.time, length - m0, p.D);
      load_rows<Tiles>(dout, p.dout.row(b, first + m0, h), p.dout.time, length - m0, p.D);
      __syncthreads();
      const int64_t rows = (int64_t(b) * p.H + h) * p.length + first;
      simt_gradients<T, Tiles, kOptions>(p, q, k, v, dout, rows, length, m0, n0, probability, dscore);
      __syncthreads();
      const auto inside = [&](int row, int j) { return n0 + row <= m0 + j && !p.rule.template window_cuts<kOptions>(m0 + j, n0 + row); };
      add_rows<Tiles>(dv, dout, [&](int row, int j) { return probability[j * (kB + 1) + row]; }, inside);
      add_rows<Tiles>(dk, q, [&](int row, int j) { return dscore[j * (kB + 1) + row]; }, inside);
    }
#pragma unroll
  for (int a = 0; a < kSide; ++a)
#pragma unroll
    for (int c = 0; c < kD / 16; ++c) {
      if (n0 + ty + 16 * a >= length || tx + 16 * c >= p.D) continue;
      p.dk.row(b, first + n0 + ty + 16 * a, hkv)[tx + 16 * c] = from_float<T>(dk[a][c] * p.scale);
      p.dv.row(b, first + n0 + ty + 16 * a, hkv)[tx + 16 * c] = from_float<T>(dv[a][c]);
    }
}

// All five as dkv_tile, for each piece of work.
template <class T, class Tiles, bool kOptions>
__global__ void __launch_bounds__(256) causal_dkv_simt(const SimtBackward<T> p) {
  for_each_simt_work<kOptions, Tiles::kB>(p, p.H / p.group, 1, [&](SimtWork work) { dkv_tile<T, Tiles, kOptions>(p, work); });
}

}  // namespace weft::cuda
