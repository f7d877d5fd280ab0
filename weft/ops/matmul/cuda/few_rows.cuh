// The kernels of few_rows.h.
#pragma once

#include "weft/ops/matmul/cuda/epilogue.cuh"
#include "weft/tile/cuda/mma.cuh"
#include "weft/tile/cuda/overlap.cuh"

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
  bool ahead = false;  // the previous kernel writes no W
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

// The kThreads threads of a block load stage after stage of its rows of W and of x. A thread has one column of pieces, so that a copy
// takes few instructions: they, not the memory, were the limit of a first version.
template <class T, class Out, class Ring, int kThreads>
struct FewRowsLoader {
  static constexpr int kPer = Ring::kPer, kPieces = Ring::kDepth / kPer, kPiecesW = (Ring::kTransposed ? Ring::kDepth : Ring::kRows) / kPer;
  static constexpr int kRowsW = Ring::kTransposed ? Ring::kRows : Ring::kDepth;  // of a stage, as stored
  static constexpr int kAtOnce = kThreads / kPieces, kAtOnceW = kThreads / kPiecesW;
  static_assert(kThreads % kPieces == 0 && kThreads % kPiecesW == 0 && (kRowsW % kAtOnceW == 0 || kRowsW < kAtOnceW));
  const FewRowsParams<T, Out>& p;
  const FewRowsMember<T, Out>& member;
  int n0, rows, steps, row, column, row_w, column_w;
  const T *x, *w;  // this thread's first piece of stage 0
  uint32_t ring;

  __device__ __forceinline__ FewRowsLoader(const FewRowsParams<T, Out>& p, const FewRowsMember<T, Out>& member, int n0, int m0,
                                           uint32_t ring)
      : p(p), member(member), n0(n0), rows(min(Ring::kCols, p.M - m0)), steps((p.K + Ring::kDepth - 1) / Ring::kDepth), ring(ring) {
    row = int(threadIdx.x) / kPieces, column = int(threadIdx.x) % kPieces * kPer;
    row_w = int(threadIdx.x) / kPiecesW, column_w = int(threadIdx.x) % kPiecesW * kPer;
    x = p.x + (m0 + row) * p.x_row + column;
    w = member.w + (Ring::kTransposed ? (n0 + row_w) * member.w_row + column_w : row_w * member.w_row + n0 + column_w);
  }

  __device__ __forceinline__ uint32_t stage(int step) const { return ring + uint32_t(step % Ring::kStages) * Ring::kStage; }

  // Rows of x past the last are zeros in every stage, written once.
  __device__ __forceinline__ void zero_missing_rows() const {
    for (int s = 0; s < Ring::kStages; ++s)
      for (int r = row; r < Ring::kCols; r += kAtOnce)
        if (r >= rows) put_zeros(stage(s) + Ring::kBytesW + uint32_t(r * Ring::kPitch + column * int(sizeof(T))));
  }

  __device__ __forceinline__ void load(int step) const {
    load_w(step);
    load_x(step);
  }
  __device__ __forceinline__ void load_w(int step) const {
    if (step >= steps) return;
    const int k0 = step * Ring::kDepth;
    whole(k0) ? load_whole_w(step, k0) : load_rest_w(step, k0);
  }
  __device__ __forceinline__ void load_x(int step) const {
    if (step < steps) {
      const int k0 = step * Ring::kDepth;
      whole(k0) ? load_whole_x(step, k0) : load_rest_x(step, k0);
    }
    copies_end();  // past the last step too: copies_wait counts groups
  }

 private:
  __device__ __forceinline__ static void put_zeros(uint32_t to) {
    asm volatile("st.shared.v4.b32 [%0], {%1,%1,%1,%1};\n" ::"r"(to), "r"(0) : "memory");
  }
  // Elements of W that exist from (n, k) on along a stored row.
  __device__ __forceinline__ int left(int n, int k) const {
    return n < member.N && k < p.K ? (Ring::kTransposed ? p.K - k : member.N - n) : 0;
  }

  // Whether all kDepth elements exist and rows are aligned.
  __device__ __forceinline__ bool whole(int k0) const { return p.w_aligned && p.x_aligned && k0 + Ring::kDepth <= p.K; }

  __device__ __forceinline__ void load_whole_w(int step, int k0) const {
    const uint32_t to = stage(step) + uint32_t(row_w * Ring::kPitchW + column_w * int(sizeof(T)));
    const T* from = w + (Ring::kTransposed ? k0 : k0 * member.w_row);
#pragma unroll
    for (int r = 0; r < kRowsW; r += kAtOnceW) {
      if (kRowsW < kAtOnceW && row_w >= kRowsW) break;
      const int n = n0 + (Ring::kTransposed ? row_w + r : column_w),
                bytes = max(0, min(kPer, Ring::kTransposed ? (n < member.N ? kPer : 0) : member.N - n));
      copy_async(to + uint32_t(r * Ring::kPitchW), bytes ? from + r * member.w_row : member.w, bytes * int(sizeof(T)));
    }
  }
  __device__ __forceinline__ void load_whole_x(int step, int k0) const {
    const uint32_t to_x = stage(step) + Ring::kBytesW + uint32_t(row * Ring::kPitch + column * int(sizeof(T)));
#pragma unroll
    for (int r = 0; r < Ring::kCols; r += kAtOnce)
      if (row + r < rows) copy_async(to_x + uint32_t(r * Ring::kPitch), x + k0 + r * p.x_row);
  }

  // The end of K, and rows that are not aligned.
  __device__ __forceinline__ void load_rest_w(int step, int k0) const {
    const uint32_t to = stage(step);
    for (int r = row_w; r < kRowsW; r += kAtOnceW) {
      const int n = n0 + (Ring::kTransposed ? r : column_w), k = k0 + (Ring::kTransposed ? column_w : r), count = left(n, k);
      const T* from = member.w + (Ring::kTransposed ? n * member.w_row + k : k * member.w_row + n);
      copy_piece(to + uint32_t(r * Ring::kPitchW + column_w * int(sizeof(T))), count ? from : member.w, count, p.w_aligned);
    }
  }
  __device__ __forceinline__ void load_rest_x(int step, int k0) const {
    const uint32_t to = stage(step);
    for (int r = row; r < rows; r += kAtOnce) {
      const int count = max(0, p.K - k0 - column);
      copy_piece(to + Ring::kBytesW + uint32_t(r * Ring::kPitch + column * int(sizeof(T))), count ? x + k0 + (r - row) * p.x_row : p.x,
                 count, p.x_aligned);
    }
  }
};

inline constexpr int kFewRowsThreads = 128;

// Equation: C = alpha X op(W) + beta C + bias, then the activation.
// Layout:   X [M, K], W [N, K] or [K, N], C and pre [M, N], with row strides; bias [N].
// Order:    K in blocks of 16, one mma after the other from zero, for any M, any tile and any place of a row. Rows of W are spread over
// warps
//           and blocks, K never is.
// Requires: 128 threads. All load; a warp computes 16 rows of W, or, if the block has fewer than 64, some of their columns. The previous
//           kernel may write X and, unless `ahead`, W (weft/tile/cuda/overlap.cuh).
// Traffic:  W once for kCols rows of X; X once for every kRows rows of W, from L2.
template <class Out, class Ring>
__global__ void __launch_bounds__(kFewRowsThreads) few_rows_bf16(const FewRowsParams<__nv_bfloat16, Out> p) {
  static_assert(Ring::kRows % 16 == 0 && Ring::kRows <= 64 && Ring::kCols % 8 == 0 && Ring::kDepth % 32 == 0);
  constexpr int kGroups = Ring::kCols / 8, kSharing = 4 / (Ring::kRows / 16);  // groups of eight columns; warps that share 16 rows
  constexpr int kMine = kGroups < kSharing ? 1 : kGroups / kSharing;
  extern __shared__ __align__(128) unsigned char memory[];
  const auto& member = p.of_block(int(blockIdx.x));
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, row0 = warp / kSharing * 16, group0 = warp % kSharing * kMine;
  const int n0 = (int(blockIdx.x) - member.first_block) * Ring::kRows, m0 = int(blockIdx.y) * Ring::kCols;
  const FewRowsLoader<__nv_bfloat16, Out, Ring, kFewRowsThreads> loader(p, member, n0, m0, shared_address(memory));
  FragmentC sum[kMine] = {};
  const auto weights = [&](uint32_t stage, int k) {
    FragmentA a;
    if constexpr (Ring::kTransposed)
      load_matrices(a.r, stage + uint32_t((row0 + lane % 16) * Ring::kPitchW + (k + lane / 16 * 8) * 2));
    else
      load_matrices_transposed(a.r, stage + uint32_t((k + lane % 8 + lane / 16 * 8) * Ring::kPitchW + (row0 + lane / 8 % 2 * 8) * 2));
    return a;
  };
  const auto compute = [&](uint32_t stage) {
    const uint32_t x = stage + Ring::kBytesW;
#pragma unroll
    for (int k = 0; k < Ring::kDepth; k += 32) {
      const FragmentA a[2] = {weights(stage, k), weights(stage, k + 16)};
      FragmentB b[2][kMine];  // of both sixteens
#pragma unroll
      for (int g = 0; g < kMine; ++g) {
        uint32_t r[4];  // eight rows of x, 32 of K
        load_matrices(r, x + uint32_t(((group0 + g) * 8 + lane % 8) * Ring::kPitch + (k + lane / 8 * 8) * 2));
        b[0][g] = {{r[0], r[1]}};
        b[1][g] = {{r[2], r[3]}};
      }
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int g = 0; g < kMine; ++g) multiply_add(sum[g], a[half], b[half][g]);
    }
  };
  let_next_kernel_start();
  if (!p.ahead) wait_for_kernel_before();
  loader.zero_missing_rows();
#pragma unroll 1
  for (int s = 0; s < Ring::kStages - 1; ++s) loader.load_w(s);
  wait_for_kernel_before();
#pragma unroll 1
  for (int s = 0; s < Ring::kStages - 1; ++s) loader.load_x(s);
#pragma unroll 1
  for (int s = 0; s < loader.steps; ++s) {
    copies_wait<Ring::kStages - 2>();
    __syncthreads();  // step s has arrived; all are done with step s - 1, whose stage is loaded next
    loader.load(s + Ring::kStages - 1);
    if (group0 < kGroups) compute(loader.stage(s));
  }
  if (group0 >= kGroups) return;
#pragma unroll
  for (int g = 0; g < kMine; ++g)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = n0 + row0 + FragmentC::row(i, lane), m = m0 + (group0 + g) * 8 + FragmentC::column(i, lane);
      if (n < member.N && m < p.M)
        p.finish(sum[g].x[i], member.bias, member.wide_bias, n, member.c + m * member.c_row + n,
                 member.pre ? member.pre + m * member.pre_row + n : nullptr);
    }
}

// Equation, layout: as few_rows_bf16, in f32.
// Order:    one fma for each k from 0 on. A lane of the first warp has a row of W; all warps load.
// Requires: 128 threads.
// Traffic:  as few_rows_bf16.
template <class Ring>
__global__ void __launch_bounds__(kFewRowsThreads) few_rows_f32(const FewRowsParams<float, float> p) {
  static_assert(Ring::kRows == 32 && Ring::kDepth % 4 == 0);
  extern __shared__ __align__(128) unsigned char memory[];
  const auto& member = p.of_block(int(blockIdx.x));
  const int lane = int(threadIdx.x) % 32, n0 = (int(blockIdx.x) - member.first_block) * 32, n = n0 + lane;
  const int m0 = int(blockIdx.y) * Ring::kCols;
  const FewRowsLoader<float, float, Ring, kFewRowsThreads> loader(p, member, n0, m0, shared_address(memory));
  float sum[Ring::kCols] = {};
  loader.zero_missing_rows();
#pragma unroll 1
  for (int s = 0; s < Ring::kStages - 1; ++s) loader.load(s);
#pragma unroll 1
  for (int s = 0; s < loader.steps; ++s) {
    copies_wait<Ring::kStages - 2>();
    __syncthreads();
    loader.load(s + Ring::kStages - 1);
    if (threadIdx.x >= 32) continue;
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
  if (threadIdx.x >= 32 || n >= member.N) return;
#pragma unroll
  for (int m = 0; m < Ring::kCols; ++m)
    if (m0 + m < p.M)
      p.finish(sum[m], member.bias, member.wide_bias, n, member.c + (m0 + m) * member.c_row + n,
               member.pre ? member.pre + (m0 + m) * member.pre_row + n : nullptr);
}

}  // namespace weft::cuda
