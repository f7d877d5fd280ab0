// One query per sequence against a cache in bf16, on tensor cores: the heads that share a key head are the rows of one
// 16-row operand, so that a key is read once for all of them. Each warp has a ring of slabs of 16 keys in shared memory, loaded
// asynchronously, and its own running maximum and sums; the warps are merged in order at the end.
#pragma once

#include "weft/ops/kv_attention/cuda/tiles.h"
#include "weft/ops/kv_attention/cuda/decode.cuh"
#include "weft/tile/cuda/register_tile.cuh"

namespace weft::cuda {

// Equation: s_j = scale q . k_j; o = sum of 2^(s_j - m) v_j, with m and the sum of 2^(s_j - m), over the split's keys.
// Layout:   q [B, 1, H, D]; caches [B, capacity, Hkv, D] with any strides over B, time and heads; partial results.
// Order:    a block per (split of the keys, up to 16 heads of one key head, sequence); warp w takes slabs w, w + 4, ... of
//           the split in order, online; then the warps in order. p is rounded to bf16 for its matmul with v.
// Requires: D <= kD, aligned rows, 128 threads.
// Traffic:  every cached key and value once per 16 heads of its group.
template <class Tiles>
__global__ void __launch_bounds__(kDecodeWarps * 32) attend_bf16(const DecodeParams<__nv_bfloat16> p) {
  constexpr int kD = Tiles::kD, kStages = Tiles::kStages, kOTiles = kD / 8;
  using Slab = SharedTile<kSlab, kD>;
  extern __shared__ __align__(128) unsigned char memory[];
  const DecodeBlock block(p, kMostHeads);
  if (!block.valid) return;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const SharedTile<kMostHeads, kD> queries{shared_address(memory)};
  const uint32_t ring = queries.base + queries.kBytes + uint32_t(warp) * kStages * 2 * Slab::kBytes;
  const auto keys_at = [&](int stage) { return Slab{ring + uint32_t(stage) * 2 * Slab::kBytes}; };
  const auto values_at = [&](int stage) { return Slab{ring + uint32_t(stage) * 2 * Slab::kBytes + Slab::kBytes}; };
  const int slabs = (block.last - block.first + kSlab - 1) / kSlab, mine = (slabs - warp + kDecodeWarps - 1) / kDecodeWarps;
  const auto load_slab = [&](int i) {  // number i of this warp's
    const int key = block.first + (warp + i * kDecodeWarps) * kSlab;
    if (i < mine) {
      keys_at(i % kStages).template load<32>(p.k.row(block.b, key, block.hkv), p.k.time, block.last - key, p.D, true, lane);
      values_at(i % kStages).template load<32>(p.v.row(block.b, key, block.hkv), p.v.time, block.last - key, p.D, true, lane);
    }
    copies_end();  // past the last slab too: copies_wait counts groups
  };
  queries.template load<kDecodeWarps * 32>(p.q.row(block.b, 0, block.head0), p.q.head, block.heads, p.D, true, int(threadIdx.x));
  copies_end();
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) load_slab(i);
  copies_wait<kStages - 1>();
  __syncthreads();
  FragmentA q[kD / 16];
#pragma unroll
  for (int d = 0; d < kD / 16; ++d) q[d] = queries.a(0, d * 16);

  FragmentC o[kOTiles] = {};
  float largest[2] = {Max::kNone, Max::kNone}, sum[2] = {};
  for (int i = 0; i < mine; ++i) {
    __syncwarp();  // all lanes are done with the slab that is overwritten next
    load_slab(i + kStages - 1);
    copies_wait<kStages - 1>();
    __syncwarp();
    const Slab k = keys_at(i % kStages), v = values_at(i % kStages);
    FragmentC s[2] = {};
#pragma unroll
    for (int d = 0; d < kD / 16; ++d) {
      FragmentB keys[2];
      k.b_transposed(keys, 0, d * 16);
      multiply_add(s[0], q[d], keys[0]);
      multiply_add(s[1], q[d], keys[1]);
    }
    const int key0 = block.first + (warp + i * kDecodeWarps) * kSlab;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float most = largest[half];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& x = s[e / 2].x[2 * half + e % 2];
        if (key0 + e / 2 * 8 + FragmentC::column(e % 2, lane) >= block.last) x = Max::kNone;
        most = fmaxf(most, x);
      }
      most = quad_max(most);
      const ScoreBase base(most, p.to_log2);
      const float shrink = base.weight(largest[half]);
      largest[half] = most;
      sum[half] *= shrink;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float& x = s[e / 2].x[2 * half + e % 2];
        x = base.weight(x);
        sum[half] += x;
      }
#pragma unroll
      for (int n = 0; n < kOTiles; ++n) o[n].x[2 * half] *= shrink, o[n].x[2 * half + 1] *= shrink;
    }
    const FragmentA weights = as_operand(s[0], s[1]);
#pragma unroll
    for (int n = 0; n < kOTiles; n += 2) {
      FragmentB values[2];
      v.b(values, 0, n * 8);
      multiply_add(o[n], weights, values[0]);
      multiply_add(o[n + 1], weights, values[1]);
    }
  }
  copies_wait<0>();
  __syncthreads();

  // The warps' outputs go to the rings' memory, [warp][head][D], and are merged in order.
  float* outputs = reinterpret_cast<float*>(memory);
  __shared__ float tops[kDecodeWarps][kMostHeads], sums[kDecodeWarps][kMostHeads];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int head = FragmentC::row(2 * half, lane);
    const float total = quad_sum(sum[half]);
    if (lane % 4 == 0) tops[warp][head] = largest[half] * p.to_log2, sums[warp][head] = total;
#pragma unroll
    for (int n = 0; n < kOTiles; ++n)
      *reinterpret_cast<float2*>(outputs + (warp * kMostHeads + head) * kD + n * 8 + FragmentC::column(0, lane)) = {o[n].x[2 * half],
                                                                                                                    o[n].x[2 * half + 1]};
  }
  __syncthreads();
  for (int head = warp; head < block.heads; head += kDecodeWarps) {
    float top = Max::kNone, total = 0, weight[kDecodeWarps];
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) top = fmaxf(top, tops[w][head]);
#pragma unroll
    for (int w = 0; w < kDecodeWarps; ++w) {
      weight[w] = exp2_approx(tops[w][head] - top);
      total = fmaf(sums[w][head], weight[w], total);
    }
    for (int d = lane; d < p.D; d += 32) {
      float x = 0;
#pragma unroll
      for (int w = 0; w < kDecodeWarps; ++w) x = fmaf(outputs[(w * kMostHeads + head) * kD + d], weight[w], x);
      block.write(p, head, d, x);
    }
    if (lane == 0) block.write(p, head, top, total);
  }
}

}  // namespace weft::cuda
