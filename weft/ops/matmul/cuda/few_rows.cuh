// The kernels of few_rows.h.
#pragma once

#include "weft/ops/matmul/cuda/epilogue.cuh"
#include "weft/tile/cuda/mma.cuh"

namespace weft::cuda {

template <class T, class Out>
struct FewRowsMember {
  const T* w;  // b
  const void* bias;
  Out *c, *pre;
  int64_t w_row, c_row, pre_row;
  int N, first_block;
  bool wide_bias;
};
template <class T, class Out>
struct FewRowsParams {
  const T* x;  // a
  int64_t x_row;
  int M, K, members;
  bool x_aligned, w_aligned;
  Finish<Out> finish;
  FewRowsMember<T, Out> member[4];

  __device__ __forceinline__ const FewRowsMember<T, Out>& of_block(int block) const {
    int i = 0;
    while (i + 1 < members && block >= member[i + 1].first_block) ++i;
    return member[i];
  }
};

// A ring of stages in shared memory: kDepth of K for kRows rows of W and kCols rows of x. Rows of a stage are sixteen bytes longer than
// their elements, so that eight of them lie in different banks. kTransposed: W is [N, K]; else [K, N], and a stage has rows of kRows.
template <class T, bool kTransposed_, int kRows_, int kCols_, int kDepth_>
struct FewRowsRing {
  static constexpr bool kTransposed = kTransposed_;
  static constexpr int kRows = kRows_, kCols = kCols_, kDepth = kDepth_, kPer = 16 / int(sizeof(T));
  static constexpr int kPitch = kDepth * int(sizeof(T)) + 16, kPitchW = kTransposed ? kPitch : kRows * int(sizeof(T)) + 16;
  static constexpr int kBytesW = (kTransposed ? kRows : kDepth) * kPitchW, kStage = kBytesW + kCols * kPitch;
  static constexpr int kMostBytes = 96 * 1024;  // a block of every GPU has 99 KiB
  static constexpr int kStages = kMostBytes / kStage < 16 ? kMostBytes / kStage : 16, kBytes = kStages * kStage;
  static_assert(kStages >= 3);
};

// Copies `count` elements (of sixteen bytes) to shared memory, zeros after them; asynchronously if `aligned`.
template <class T>
__device__ __forceinline__ void copy_piece(uint32_t to, const T* from, int count, bool aligned) {
  constexpr int kPer = 16 / int(sizeof(T));
  if (aligned) return copy_async(to, from, max(0, min(kPer, count)) * int(sizeof(T)));
  alignas(16) T piece[kPer];
#pragma unroll
  for (int i = 0; i < kPer; ++i) piece[i] = i < count ? from[i] : T(0.0f);
  const uint4 v = *reinterpret_cast<const uint4*>(piece);
  asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};\n" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// kThreads threads load stage after stage of a block's rows of W and of x.
template <class T, class Out, class Ring, int kThreads>
struct FewRowsLoader {
  const FewRowsParams<T, Out>& p;
  const FewRowsMember<T, Out>& member;
  int n0, m0, steps;
  uint32_t ring;

  __device__ __forceinline__ uint32_t stage(int step) const { return ring + uint32_t(step % Ring::kStages) * Ring::kStage; }

  // Rows of x past the last are zeros in every stage, written once.
  __device__ __forceinline__ void zero_missing_rows() const {
    constexpr int kPieces = Ring::kDepth / Ring::kPer;
    for (int s = 0; s < Ring::kStages; ++s)
      for (int at = int(threadIdx.x); at < Ring::kCols * kPieces; at += kThreads)
        if (m0 + at / kPieces >= p.M)
          asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};\n" ::"r"(stage(s) + Ring::kBytesW +
                                                                       uint32_t(at / kPieces * Ring::kPitch + at % kPieces * 16)),
                       "r"(0)
                       : "memory");
  }

  __device__ __forceinline__ void load(int step) const {
    if (step < steps) {
      const int k0 = step * Ring::kDepth;
      load_w(stage(step), k0);
      load_x(stage(step) + Ring::kBytesW, k0);
    }
    copies_end();  // past the last step too: copies_wait counts groups
  }

 private:
  __device__ __forceinline__ void load_w(uint32_t to, int k0) const {
    constexpr int kPieces = (Ring::kTransposed ? Ring::kDepth : Ring::kRows) / Ring::kPer;
    constexpr int kCount = (Ring::kTransposed ? Ring::kRows : Ring::kDepth) * kPieces;
#pragma unroll 4
    for (int at = int(threadIdx.x); at < kCount; at += kThreads) {
      const int row = at / kPieces, column = at % kPieces * Ring::kPer;
      const int n = n0 + (Ring::kTransposed ? row : column), k = k0 + (Ring::kTransposed ? column : row);
      const bool inside = n < member.N && k < p.K;
      const T* from = member.w + (Ring::kTransposed ? n * member.w_row + k : k * member.w_row + n);
      copy_piece(to + uint32_t(row * Ring::kPitchW + at % kPieces * 16), inside ? from : member.w,
                 inside ? (Ring::kTransposed ? p.K - k : member.N - n) : 0, p.w_aligned);
    }
  }
  __device__ __forceinline__ void load_x(uint32_t to, int k0) const {
    constexpr int kPieces = Ring::kDepth / Ring::kPer;
    const int count = min(Ring::kCols, p.M - m0) * kPieces;
    for (int at = int(threadIdx.x); at < count; at += kThreads) {
      const int row = at / kPieces, k = k0 + at % kPieces * Ring::kPer;
      copy_piece(to + uint32_t(row * Ring::kPitch + at % kPieces * 16), k < p.K ? p.x + (m0 + row) * p.x_row + k : p.x, p.K - k,
                 p.x_aligned);
    }
  }
};

// Equation: C = alpha X op(W) + beta C + bias, then the activation.
// Layout:   X [M, K], W [N, K] or [K, N], C and pre [M, N], with row strides; bias [N].
// Order:    K in sixteens, one mma after the other from zero: for any M, any tile, any place of a row. Rows of W are spread over
//           warps and blocks, K never.
// Requires: 32 kWarps threads.
// Traffic:  W once for kCols rows of X; X once for every 16 kWarps rows of W, from L2.
template <class Out, class Ring, int kWarps>
__global__ void __launch_bounds__(32 * kWarps) few_rows_bf16(const FewRowsParams<__nv_bfloat16, Out> p) {
  static_assert(Ring::kRows == 16 * kWarps && Ring::kCols % 8 == 0 && Ring::kDepth % 32 == 0);
  constexpr int kGroups = Ring::kCols / 8, kThreads = 32 * kWarps;
  extern __shared__ __align__(128) unsigned char memory[];
  const auto& member = p.of_block(int(blockIdx.x));
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int n0 = (int(blockIdx.x) - member.first_block) * Ring::kRows, m0 = int(blockIdx.y) * Ring::kCols;
  const FewRowsLoader<__nv_bfloat16, Out, Ring, kThreads> loader{
      p, member, n0, m0, (p.K + Ring::kDepth - 1) / Ring::kDepth, shared_address(memory)};
  FragmentC sum[kGroups] = {};
  const auto weights = [&](uint32_t stage, int k) {
    FragmentA a;
    if constexpr (Ring::kTransposed)
      load_matrices(a.r, stage + uint32_t((warp * 16 + lane % 16) * Ring::kPitchW + (k + lane / 16 * 8) * 2));
    else
      load_matrices_transposed(a.r, stage + uint32_t((k + lane % 8 + lane / 16 * 8) * Ring::kPitchW + (warp * 16 + lane / 8 % 2 * 8) * 2));
    return a;
  };
  const auto compute = [&](uint32_t stage) {
    const uint32_t x = stage + Ring::kBytesW;
#pragma unroll
    for (int k = 0; k < Ring::kDepth; k += 32) {
      const FragmentA a[2] = {weights(stage, k), weights(stage, k + 16)};
      FragmentB b[2][kGroups];  // of both sixteens
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        uint32_t r[4];  // eight rows of x, 32 of K
        load_matrices(r, x + uint32_t((g * 8 + lane % 8) * Ring::kPitch + (k + lane / 8 * 8) * 2));
        b[0][g] = {{r[0], r[1]}};
        b[1][g] = {{r[2], r[3]}};
      }
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int g = 0; g < kGroups; ++g) multiply_add(sum[g], a[half], b[half][g]);
    }
  };
  loader.zero_missing_rows();
#pragma unroll 1
  for (int s = 0; s < Ring::kStages - 1; ++s) loader.load(s);
#pragma unroll 1
  for (int s = 0; s < loader.steps; ++s) {
    copies_wait<Ring::kStages - 2>();
    kWarps == 1 ? __syncwarp() : __syncthreads();  // step s has arrived; all are done with step s - 1, whose stage is loaded next
    loader.load(s + Ring::kStages - 1);
    compute(loader.stage(s));
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = n0 + warp * 16 + FragmentC::row(i, lane), m = m0 + g * 8 + FragmentC::column(i, lane);
      if (n < member.N && m < p.M)
        p.finish(sum[g].x[i], member.bias, member.wide_bias, n, member.c + m * member.c_row + n,
                 member.pre ? member.pre + m * member.pre_row + n : nullptr);
    }
}

// Equation, layout: as few_rows_bf16, in f32.
// Order:    one fma for each k from 0 on. A lane has a row of W.
// Requires: 32 threads.
// Traffic:  as few_rows_bf16.
template <class Ring>
__global__ void __launch_bounds__(32) few_rows_f32(const FewRowsParams<float, float> p) {
  static_assert(Ring::kRows == 32 && Ring::kDepth % 4 == 0);
  extern __shared__ __align__(128) unsigned char memory[];
  const auto& member = p.of_block(int(blockIdx.x));
  const int lane = int(threadIdx.x), n = (int(blockIdx.x) - member.first_block) * 32 + lane, m0 = int(blockIdx.y) * Ring::kCols;
  const FewRowsLoader<float, float, Ring, 32> loader{
      p, member, n - lane, m0, (p.K + Ring::kDepth - 1) / Ring::kDepth, shared_address(memory)};
  float sum[Ring::kCols] = {};
  loader.zero_missing_rows();
#pragma unroll 1
  for (int s = 0; s < Ring::kStages - 1; ++s) loader.load(s);
#pragma unroll 1
  for (int s = 0; s < loader.steps; ++s) {
    copies_wait<Ring::kStages - 2>();
    __syncwarp();
    loader.load(s + Ring::kStages - 1);
    const unsigned char* w = memory + s % Ring::kStages * Ring::kStage;
    const unsigned char* x = w + Ring::kBytesW;
#pragma unroll
    for (int k = 0; k < Ring::kDepth; k += 4) {
      float4 weight;
      if constexpr (Ring::kTransposed) {
        weight = *reinterpret_cast<const float4*>(w + lane * Ring::kPitchW + k * 4);
      } else {
        const auto at = [&](int i) { return *reinterpret_cast<const float*>(w + (k + i) * Ring::kPitchW + lane * 4); };
        weight = {at(0), at(1), at(2), at(3)};
      }
#pragma unroll
      for (int m = 0; m < Ring::kCols; ++m) {
        const float4 row = *reinterpret_cast<const float4*>(x + m * Ring::kPitch + k * 4);
        sum[m] = fmaf(row.x, weight.x, sum[m]);
        sum[m] = fmaf(row.y, weight.y, sum[m]);
        sum[m] = fmaf(row.z, weight.z, sum[m]);
        sum[m] = fmaf(row.w, weight.w, sum[m]);
      }
    }
  }
  if (n >= member.N) return;
#pragma unroll
  for (int m = 0; m < Ring::kCols; ++m)
    if (m0 + m < p.M)
      p.finish(sum[m], member.bias, member.wide_bias, n, member.c + (m0 + m) * member.c_row + n,
               member.pre ? member.pre + (m0 + m) * member.pre_row + n : nullptr);
}

}  // namespace weft::cuda
