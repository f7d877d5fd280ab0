// Decoding in bf16: the scores of a query, on tensor cores.
#pragma once

#include "weft/ops/kv_attention/cuda/decode.cuh"
#include "weft/tile/cuda/register_tile.cuh"

namespace weft::cuda {

// One lane's operands of a query, 16 columns each, from a row that has D columns; the rest are zeros.
template <int kD>
__device__ __forceinline__ void load_query(FragmentB (&q)[kD / 16], const __nv_bfloat16* row, int D, bool aligned, int lane) {
  const auto load = [&](auto&& two_columns) {
#pragma unroll
    for (int d = 0; d < kD; d += 16)
#pragma unroll
      for (int half = 0; half < 2; ++half) q[d / 16].r[half] = two_columns(d + half * 8 + lane_column(lane));
  };
  if (aligned) {
    load([&](int column) { return column < D ? *reinterpret_cast<const uint32_t*>(row + column) : 0u; });  // D is a multiple of 8
  } else {
    const auto element = [&](int d) { return d < D ? uint32_t(__bfloat16_as_ushort(row[d])) : 0u; };
    load([&](int column) { return element(column) | element(column + 1) << 16; });
  }
}

// Loads a tile of keys by one warp: `rows` rows and D columns exist, the rest are zeros.
template <class Keys>
__device__ __forceinline__ void load_keys(const Keys& keys, const __nv_bfloat16* from, int64_t stride, int rows, int D, bool aligned,
                                          int lane) {
  if (aligned) {
    constexpr int kAtOnce = 32 / Keys::kPieces;
    static_assert(32 % Keys::kPieces == 0 && Keys::kRows % kAtOnce == 0);
    const int row0 = lane / Keys::kPieces, column = lane % Keys::kPieces * 8, left = column < D ? rows - row0 : 0;
    const __nv_bfloat16* source = from + row0 * stride + column;
#pragma unroll 16
    for (int i = 0; i < Keys::kRows; i += kAtOnce, source += kAtOnce * stride)
      copy_async(keys.address(row0 + i, column), i < left ? source : from, i < left ? 16 : 0);
  } else {
    using Slab = SharedTile<16, Keys::kColumns>;
#pragma unroll 1
    for (int row = 0; row < Keys::kRows; row += 16)
      Slab{keys.base + uint32_t(row * Keys::kColumns * 2)}.template load<32>(from + (row < rows ? row * stride : 0), stride, rows - row, D,
                                                                             false, lane);
  }
  copies_end();
}

// Equation: s_j = q . k_j, with the soft cap if there is one, -inf outside the window; and the maximum of each kScoreKeys scores.
// Layout:   q [B, queries, H, D]; k [B, capacity, Hkv, D] or paged, any strides over B, time and heads; scores and maxima as in
// DecodeParams. Order:    a warp per (kScoreKeys keys, up to kDecodeHeads heads of one key head, query); D in blocks of 16, in order. Keys
// are the rows of
//           mma, heads its columns: sums have the products of the forward pass in the same order.
// Requires: D <= kD, 32 threads; unaligned rows are loaded element by element.
// Traffic:  every cached key once per kDecodeHeads heads of its group.
template <int kD>
__global__ void __launch_bounds__(32) score_keys(const DecodeParams<__nv_bfloat16> p) {
  constexpr int kTile = kForwardKeys<kD>, kSlabs = kScoreKeys / 16;
  extern __shared__ __align__(128) unsigned char memory[];
  let_next_kernel_start();
  wait_for_kernel_before();
  const DecodeBlock block(p);
  const int lane = int(threadIdx.x), end = (block.length + kTile - 1) / kTile * kTile;
  const SharedTile<kScoreKeys, kD> keys{shared_address(memory)};
  const auto load = [&](int key0) {
    const int rows = block.length - key0;
    load_keys(keys, p.k.row(block.b, rows > 0 ? key0 : 0, block.hkv), p.k.time, rows, p.D, p.aligned, lane);
  };
  int key0 = block.first_tile<kForwardQueries<kD>, kTile>(p) * kTile + int(blockIdx.x) * kScoreKeys;
  if (key0 >= end) return;
  load(key0);
  FragmentB q[kD / 16] = {};
  if (lane_row(lane) < block.heads) load_query<kD>(q, p.q.row(block.b, block.t, block.head0 + lane_row(lane)), p.D, p.aligned, lane);
  for (int next; key0 < end; key0 = next) {
    copies_wait<0>();
    __syncwarp();  // the keys have arrived, for all lanes
    FragmentC scores[kSlabs] = {};
#pragma unroll
    for (int d = 0; d < kD; d += 16)
#pragma unroll
      for (int s = 0; s < kSlabs; ++s) multiply_add(scores[s], keys.a(s * 16, d), q[d / 16]);
    __syncwarp();  // all lanes are done with the keys
    next = key0 + int(gridDim.x) * kScoreKeys;
    if (next < end) load(next);  // while these scores are written

    float most[2] = {Max::kNone, Max::kNone};  // of this lane's two heads
#pragma unroll
    for (int s = 0; s < kSlabs; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = key0 + s * 16 + FragmentC::row(i, lane), head = FragmentC::column(i, lane);
        float x = scores[s].x[i];
        if (p.soft_cap > 0) x = p.soft_cap * tanhf(x * p.cap_scale);
        if (key >= block.length || key < block.low) x = Max::kNone;
        most[i % 2] = fmaxf(most[i % 2], x);
        if (head < block.heads) p.scores[block.row(p, head) * p.pitch + key] = x;
      }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int distance = 4; distance < 32; distance *= 2) most[i] = fmaxf(most[i], __shfl_xor_sync(0xffffffffu, most[i], distance));
      const int head = FragmentC::column(i, lane);
      if (lane < 4 && head < block.heads) p.maxima[block.row(p, head) * (p.pitch / kScoreKeys) + key0 / kScoreKeys] = most[i];
    }
  }
}

}  // namespace weft::cuda
