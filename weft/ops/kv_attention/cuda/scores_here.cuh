// Computes the scores of a short cache in the shared memory of the block that weighs the values: one kernel instead of two. All blocks of a
// key head compute the same scores, which costs less than a second kernel; the products and their order are those of score_keys.
#pragma once

#include "weft/ops/kv_attention/cuda/score_keys.cuh"

namespace weft::cuda {

// Shared memory: scores per head, maxima of sixteen keys, then of kScoreKeys. Rows of scores begin in different banks.
template <int kKeys_>
struct ScoresHere {
  static constexpr int kKeys = kKeys_, kPitch = kKeys + 8, kSlabs = kKeys / 16, kParts = kKeys / kScoreKeys;
  static constexpr int kBytes = 4 * kDecodeHeads * (kPitch + kSlabs + kParts);
  static_assert(kKeys % kScoreKeys == 0);
  float* at;

  __device__ __forceinline__ float* scores(int head) const { return at + head * kPitch; }
  __device__ __forceinline__ float* slabs(int head) const { return at + kDecodeHeads * kPitch + head * kSlabs; }
  __device__ __forceinline__ float* maxima(int head) const { return at + kDecodeHeads * (kPitch + kSlabs) + head * kParts; }
};

// Scores of sixteen keys from key0 on, by one warp.
template <int kD, class Here>
__device__ __forceinline__ void score_slab(const Here& to, const DecodeParams<__nv_bfloat16>& p, const DecodeBlock& block,
                                           const FragmentB (&q)[kD / 16], int key0, int lane) {
  FragmentC sum = {};
  const int left = block.length - key0;
  if (left > 0) {
    const __nv_bfloat16* row = p.k.row(block.b, key0, block.hkv) + lane_column(lane);
    const __nv_bfloat16 *low = row + min(lane_row(lane), left - 1) * p.k.time, *high = row + min(lane_row(lane) + 8, left - 1) * p.k.time;
    const auto two = [&](const __nv_bfloat16* from, int d) {
      return d + lane_column(lane) < p.D ? *reinterpret_cast<const uint32_t*>(from + d) : 0u;
    };
    FragmentA keys[kD / 16];
#pragma unroll
    for (int d = 0; d < kD; d += 16) keys[d / 16] = {{two(low, d), two(high, d), two(low, d + 8), two(high, d + 8)}};
#pragma unroll
    for (int d = 0; d < kD; d += 16) multiply_add(sum, keys[d / 16], q[d / 16]);
  }
  float most[2] = {Max::kNone, Max::kNone};  // for this lane's two heads
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int key = key0 + FragmentC::row(i, lane);
    float x = sum.x[i];
    if (p.soft_cap > 0) x = p.soft_cap * tanhf(x * p.cap_scale);
    if (key >= block.length || key < block.low) x = Max::kNone;
    most[i % 2] = fmaxf(most[i % 2], x);
    to.scores(FragmentC::column(i, lane))[key] = x;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
#pragma unroll
    for (int distance = 4; distance < 32; distance *= 2) most[i] = fmaxf(most[i], __shfl_xor_sync(0xffffffffu, most[i], distance));
    if (lane < 4) to.slabs(FragmentC::column(i, lane))[key0 / 16] = most[i];
  }
}

// Scores of keys [begin, end), which are whole tiles, by kWarps warps.
template <int kD, int kWarps, class Here>
__device__ __forceinline__ void score_here(const Here& to, const DecodeParams<__nv_bfloat16>& p, const DecodeBlock& block, int begin,
                                           int end) {
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  FragmentB q[kD / 16] = {};
  if (lane_row(lane) < block.heads) load_query<kD>(q, p.q.row(block.b, block.t, block.head0 + lane_row(lane)), p.D, true, lane);
#pragma unroll 2
  for (int key0 = begin + warp * 16; key0 < end; key0 += kWarps * 16) score_slab<kD>(to, p, block, q, key0, lane);
  __syncthreads();
  for (int i = int(threadIdx.x); i < kDecodeHeads * Here::kParts; i += kWarps * 32) {
    const int head = i / Here::kParts, part = i % Here::kParts;
    if (part * kScoreKeys < begin || part * kScoreKeys >= end) continue;
    const float4 slabs = *reinterpret_cast<const float4*>(to.slabs(head) + part * 4);
    to.maxima(head)[part] = fmaxf(fmaxf(slabs.x, slabs.y), fmaxf(slabs.z, slabs.w));
  }
  __syncthreads();
}

}  // namespace weft::cuda
