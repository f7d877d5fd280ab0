// Decoding in bf16: the scores of a query, on tensor cores.
#pragma once

#include "weft/ops/kv_attention/cuda/decode.cuh"
#include "weft/tile/cuda/register_tile.cuh"

namespace weft::cuda {

// Columns [column, column + 2) of a row that has D of them, as half a register of an operand; those that do not exist are zeros.
__device__ __forceinline__ uint32_t two_columns(const __nv_bfloat16* row, int column, int D, bool aligned) {
  if (aligned) return column < D ? *reinterpret_cast<const uint32_t*>(row + column) : 0u;  // D is a multiple of 8
  const auto element = [&](int d) { return d < D ? uint32_t(__bfloat16_as_ushort(row[d])) : 0u; };
  return element(column) | element(column + 1) << 16;
}

// Equation: s_j = q . k_j, and the maximum of each kScoreKeys of them.
// Layout:   q [B, 1, H, D]; k [B, capacity, Hkv, D] with any strides over B, time and heads; scores and maxima as DecodeParams.
// Order:    a warp per (kScoreKeys keys, up to kDecodeHeads heads of one key head, sequence); D in sixteens in order. Keys are the rows
//           of mma, heads its columns: the products of a sum are those of the forward pass, in the same order.
// Requires: D <= kD, 32 threads; unaligned rows are loaded element by element.
// Traffic:  every cached key once per kDecodeHeads heads of its group.
template <int kD>
__global__ void __launch_bounds__(32) score_keys(const DecodeParams<__nv_bfloat16> p) {
  constexpr int kTile = kForwardKeys<kD>, kSlabs = kScoreKeys / 16;
  using Slab = SharedTile<16, kD>;
  extern __shared__ __align__(128) unsigned char memory[];
  const DecodeBlock block(p);
  const int lane = int(threadIdx.x), end = (block.length + kTile - 1) / kTile * kTile;
  const auto slab = [&](int s) { return Slab{shared_address(memory) + uint32_t(s) * Slab::kBytes}; };
  if (int(blockIdx.x) * kScoreKeys >= end) return;

  FragmentB q[kD / 16] = {};
  if (lane_row(lane) < block.heads) {
    const __nv_bfloat16* row = p.q.row(block.b, 0, block.head0 + lane_row(lane));
#pragma unroll
    for (int d = 0; d < kD; d += 16) {
      q[d / 16].r[0] = two_columns(row, d + lane_column(lane), p.D, p.aligned);
      q[d / 16].r[1] = two_columns(row, d + lane_column(lane) + 8, p.D, p.aligned);
    }
  }
  for (int key0 = int(blockIdx.x) * kScoreKeys; key0 < end; key0 += int(gridDim.x) * kScoreKeys) {
#pragma unroll 1
    for (int s = 0; s < kSlabs; ++s) {
      const int key = key0 + s * 16, rows = block.length - key;
      slab(s).template load<32>(p.k.row(block.b, rows > 0 ? key : 0, block.hkv), p.k.time, rows, p.D, p.aligned, lane);
    }
    copies_end();
    copies_wait<0>();
    __syncwarp();  // the keys have arrived, for all lanes
    FragmentC scores[kSlabs] = {};
#pragma unroll
    for (int d = 0; d < kD; d += 16)
#pragma unroll
      for (int s = 0; s < kSlabs; ++s) multiply_add(scores[s], slab(s).a(0, d), q[d / 16]);
    __syncwarp();  // all lanes are done with the keys

    float most[2] = {Max::kNone, Max::kNone};  // of this lane's two heads
#pragma unroll
    for (int s = 0; s < kSlabs; ++s)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = key0 + s * 16 + FragmentC::row(i, lane), head = FragmentC::column(i, lane);
        const float x = key < block.length ? scores[s].x[i] : Max::kNone;
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
