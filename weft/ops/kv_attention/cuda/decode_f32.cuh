// Decoding in f32 on plain multiply-adds, in the order of forward_tile (causal_attention/cuda/simt.cuh).
#pragma once

#include "weft/ops/causal_attention/cuda/simt.cuh"
#include "weft/ops/kv_attention/cuda/decode.cuh"
#include "weft/tile/cuda/mma.cuh"

namespace weft::cuda {

inline constexpr int kDecodeThreads = 256, kSimtScoreKeys = 32;  // a warp of score_keys_simt has 32 keys of one head

// Shared memory of score_keys_simt. Rows have an odd number of words, so that a column of 32 of them lies in different banks.
__host__ __device__ inline int score_row(int D) { return D | 1; }
inline int score_bytes(int D) { return 4 * score_row(D) * (kSimtScoreKeys + kDecodeHeads); }

// Equation: s_j = scale q . k_j, or with a soft cap cap tanh(that / cap).
// Layout:   q [B, queries, H, D]; k [B, capacity, Hkv, D] or paged, any strides over B, time and heads; scores as in DecodeParams.
// Order:    a block per (32 keys, up to kDecodeHeads heads of one key head, sequence), a thread per key and head; d in order.
// Requires: 256 threads.
// Traffic:  every cached key once per kDecodeHeads heads of its group.
static __global__ void __launch_bounds__(kDecodeThreads) score_keys_simt(const DecodeParams<float> p) {
  static_assert(kDecodeThreads == kDecodeHeads * kSimtScoreKeys && kSimtScoreKeys == 32);
  extern __shared__ float shared[];
  const DecodeBlock block(p);
  const int head = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, row = score_row(p.D);
  float *keys = shared, *queries = keys + kSimtScoreKeys * row;
  if (head < block.heads)
    for (int d = lane; d < p.D; d += 32) queries[head * row + d] = p.q.row(block.b, block.t, block.head0 + head)[d];
  for (int key0 = block.low / kSimtScoreKeys * kSimtScoreKeys + int(blockIdx.x) * kSimtScoreKeys; key0 < block.length;
       key0 += int(gridDim.x) * kSimtScoreKeys) {
    __syncthreads();  // all threads are done with the keys
    for (int j = head; j < min(kSimtScoreKeys, block.length - key0); j += kDecodeHeads)
      for (int d = lane; d < p.D; d += 32) keys[j * row + d] = p.k.row(block.b, key0 + j, block.hkv)[d];
    __syncthreads();  // keys, and queries, are there
    if (head >= block.heads || key0 + lane >= block.length) continue;
    float s = 0;
#pragma unroll 8
    for (int d = 0; d < p.D; ++d) s = fmaf(queries[head * row + d], keys[lane * row + d], s);
    p.scores[block.row(p, head) * p.pitch + key0 + lane] = p.soft_cap > 0 ? p.soft_cap * tanhf(s * p.cap_scale) : s * p.scale;
  }
}

// weigh_values_simt: sixteen columns of the values, in rounds of kRoundKeys keys; values and weights of two rounds are in shared memory.
inline constexpr int kRoundKeys = 256;  // sixteen scores for each of a head's sixteen threads
template <int kB_>
struct SimtWeighTiles {
  static constexpr int kB = kB_, kTiles = kRoundKeys / kB, kColumns = 16;
  static constexpr int kWeightRow = kRoundKeys + 4;  // two heads of a warp lie in different banks
  static constexpr int kValues = kRoundKeys * kColumns, kWeights = kDecodeHeads * kWeightRow, kFactors = kTiles * kDecodeHeads;  // words
  static constexpr int kBytes = 4 * 2 * (kValues + kWeights + 2 * kFactors);

  float *values, *weights, *shrink, *more;  // [keys][columns], [heads][keys], [tiles][heads] twice
  __device__ __forceinline__ static SimtWeighTiles of(float* shared, int round) {
    float* at = shared + round % 2 * (kValues + kWeights + 2 * kFactors);
    return {at, at + kValues, at + kValues + kWeights, at + kValues + kWeights + kFactors};
  }
};

// Copies four bytes asynchronously, or zeros.
__device__ __forceinline__ void copy_word_async(uint32_t to, const float* from, int bytes) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(to), "l"(from), "r"(bytes));
}

// Values [key0, key0 + kRoundKeys) of a head, columns [column0, column0 + 16), to shared memory, by the whole block.
template <class Tiles>
__device__ __forceinline__ void load_values(const Tiles& to, const DecodeParams<float>& p, const DecodeBlock& block, int key0,
                                            int column0) {
  const auto copy = [&]<int kWords>(auto&& one) {
    constexpr int kPieces = Tiles::kColumns / kWords;
    for (int at = int(threadIdx.x); at < kRoundKeys * kPieces; at += kDecodeThreads) {
      const int j = at / kPieces, d = column0 + at % kPieces * kWords;
      const bool inside = key0 + j < block.length && d < p.D;
      one(shared_address(to.values + at * kWords), inside ? p.v.row(block.b, key0 + j, block.hkv) + d : p.v.stored.at,
          inside ? 4 * kWords : 0);
    }
  };
  if (key0 >= block.length)
    ;  // past the last round
  else if (p.aligned)
    copy.template operator()<4>([](uint32_t to, const float* from, int bytes) { copy_async(to, from, bytes); });
  else
    copy.template operator()<1>([](uint32_t to, const float* from, int bytes) { copy_word_async(to, from, bytes); });
  copies_end();
}

// The weights of one head in a round, by sixteen threads; largest: the running maximum.
template <class Tiles>
__device__ __forceinline__ void weigh_round(const Tiles& to, const float* scores, int key0, int low, int length, int head, int x,
                                            float& largest) {
  constexpr int kSide = Tiles::kB / 16;
  float s[Tiles::kTiles][kSide];
#pragma unroll
  for (int t = 0; t < Tiles::kTiles; ++t)
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      const int key = key0 + t * Tiles::kB + 16 * c + x;
      s[t][c] = key >= low && key < length ? scores[key] : Max::kNone;
    }
#pragma unroll
  for (int t = 0; t < Tiles::kTiles; ++t)
    if (key0 + t * Tiles::kB < length) {
      const auto [shrink, more] = simt_weights(s[t], largest);
#pragma unroll
      for (int c = 0; c < kSide; ++c) to.weights[head * Tiles::kWeightRow + t * Tiles::kB + 16 * c + x] = s[t][c];
      if (x == 0) to.shrink[t * kDecodeHeads + head] = shrink, to.more[t * kDecodeHeads + head] = more;
    }
}

// The sum of one column for one head over a round, keys in order, without those before `low`.
template <class Tiles>
__device__ __forceinline__ void add_round(const Tiles& from, int low, int keys, int head, int column, float& o, float& sum) {
  const float *weights = from.weights + head * Tiles::kWeightRow, *values = from.values + column;
  for (int first = 0; first < keys; first += Tiles::kB) {
    const int factor = first / Tiles::kB * kDecodeHeads + head, end = min(first + Tiles::kB, keys);
    const float shrink = from.shrink[factor];
    o *= shrink;
    sum = fmaf(sum, shrink, from.more[factor]);
    int j = max(first, low);
    for (; j % 4 != 0 && j < end; ++j) o = fmaf(weights[j], values[j * Tiles::kColumns], o);
#pragma unroll 4
    for (; j + 4 <= end; j += 4) {
      const float4 w = *reinterpret_cast<const float4*>(weights + j);
      o = fmaf(w.x, values[j * Tiles::kColumns], o);
      o = fmaf(w.y, values[(j + 1) * Tiles::kColumns], o);
      o = fmaf(w.z, values[(j + 2) * Tiles::kColumns], o);
      o = fmaf(w.w, values[(j + 3) * Tiles::kColumns], o);
    }
    for (; j < end; ++j) o = fmaf(weights[j], values[j * Tiles::kColumns], o);
  }
}

// Equation: o = sum of e^(s_j - m) v_j / sum of e^(s_j - m), m the running maximum.
// Layout:   scores as in DecodeParams; v [B, capacity, Hkv, D] or paged, any strides over B, time and heads; o [B, queries, H, D].
// Order:    a block per (sixteen columns, up to kDecodeHeads heads of one key head, sequence). A row as in forward_tile: tiles of kB keys
//           ascending, keys in order within a tile. Half of the threads add a round, the others compute the weights of the next.
// Requires: 256 threads.
// Traffic:  every cached value once per kDecodeHeads heads of its group, scores once per sixteen columns (from L2), o once.
template <int kB>
__global__ void __launch_bounds__(kDecodeThreads) weigh_values_simt(const DecodeParams<float> p) {
  using Tiles = SimtWeighTiles<kB>;
  extern __shared__ __align__(16) float simt_memory[];
  const DecodeBlock block(p);
  if (block.length == 0) return;
  constexpr int kHalf = kDecodeHeads * 16;
  static_assert(2 * kHalf == kDecodeThreads && Tiles::kColumns == 16);
  const bool adds = int(threadIdx.x) < kHalf;
  const int head = int(threadIdx.x) % kHalf / 16, x = int(threadIdx.x) % 16, column0 = int(blockIdx.x) * Tiles::kColumns;
  const float* scores = p.scores + block.row(p, min(head, block.heads - 1)) * p.pitch;  // threads without a head repeat the last one
  const auto load = [&](int round) { load_values(Tiles::of(simt_memory, round), p, block, round * kRoundKeys, column0); };
  float largest = Max::kNone, o = 0, sum = 0;
  const auto weigh = [&](int round) {
    weigh_round(Tiles::of(simt_memory, round), scores, round * kRoundKeys, block.low, block.length, head, x, largest);
  };

  const int begin = block.low / kRoundKeys;  // skips rounds before the window: in f32 a masked tile is an exact no-op
  load(begin);
  load(begin + 1);
  if (!adds) weigh(begin);
  copies_wait<1>();
  __syncthreads();  // values and weights of the first round have arrived
  for (int round = begin;; ++round) {
    const bool final_round = (round + 1) * kRoundKeys >= block.length;
    if (adds)
      add_round(Tiles::of(simt_memory, round), block.low - round * kRoundKeys, min(kRoundKeys, block.length - round * kRoundKeys), head, x,
                o, sum);
    else if (!final_round)
      weigh(round + 1);
    if (final_round) break;
    copies_wait<0>();
    __syncthreads();  // values and weights of the next round are there; those of this one have been read
    load(round + 2);
  }
  if (adds && head < block.heads && column0 + x < p.D) p.o.row(block.b, block.t, block.head0 + head)[column0 + x] = o / sum;
}

}  // namespace weft::cuda
