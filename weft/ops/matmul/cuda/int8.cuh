// The kernel for few rows and an int8 B: widens weights to bf16 in registers and multiplies on tensor cores, in the order of all bf16
// matmuls.
#pragma once

#include "weft/ops/matmul/cuda/epilogue.cuh"
#include "weft/tile/cuda/mma.cuh"

namespace weft::cuda {

inline constexpr int kInt8Threads = 128;

template <class Out>
struct Int8Params {
  const __nv_bfloat16* x;
  int64_t x_row;
  const int8_t* w;
  int64_t w_row;
  const __half* scales;
  int64_t scales_row;
  const void* bias;
  Out* c;
  int64_t c_row;
  int M, N, K;
  bool wide_bias;
  Finish<Out> finish;
};

// A ring of stages in shared memory: kDepth elements of K for kRows rows of W, their scales, and kCols rows of x. Rows are padded by
// sixteen bytes, so that eight of them lie in different banks.
template <int kRows_, int kCols_, int kDepth_>
struct Int8Ring {
  static constexpr int kRows = kRows_, kCols = kCols_, kDepth = kDepth_;
  static constexpr int kPitchW = kDepth + 16, kPitchScales = kDepth / 16, kPitchX = kDepth * 2 + 16;
  static constexpr int kScales = kRows * kPitchW, kX = kScales + (kRows * kPitchScales + 15) / 16 * 16, kStage = kX + kCols * kPitchX;
  static constexpr int kMostBytes = 96 * 1024;  // a block of every GPU has 99 KiB
  static constexpr int kStages = kMostBytes / kStage < 8 ? kMostBytes / kStage : 8, kBytes = kStages * kStage;
  static_assert(kStages >= 3 && (kPitchScales == 8 || kPitchScales % 16 == 0));
};

// Widens two numbers of one row to bf16 weights. Flipping the top bit adds 128 to a byte; as the low byte of the float 2^23 it is exact.
__device__ __forceinline__ uint32_t widened_pair(uint32_t two, float scale) {
  two ^= 0x8080u;
  const float low = __uint_as_float(__byte_perm(two, 0x4b000000u, 0x7440)) - 8388736.0f;
  const float high = __uint_as_float(__byte_perm(two, 0x4b000000u, 0x7441)) - 8388736.0f;
  return pack(low * scale, high * scale);
}

__device__ __forceinline__ uint32_t load_two_bytes(uint32_t address) {
  uint16_t two;
  asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(two) : "r"(address));
  return two;
}

__device__ __forceinline__ float load_scale(uint32_t address) {
  uint16_t bits;
  asm volatile("ld.shared.u16 %0, [%1];\n" : "=h"(bits) : "r"(address));
  return __half2float(__ushort_as_half(bits));
}

// Loads stage `step`, with zeros beyond K, N and M.
template <class Out, class Ring>
__device__ __forceinline__ void load_stage(const Int8Params<Out>& p, int n0, int m0, uint32_t to, int k0) {
  constexpr int kPiecesW = Ring::kDepth / 16, kPiecesX = Ring::kDepth / 8;
  const int thread = int(threadIdx.x);
#pragma unroll
  for (int at = thread; at < Ring::kRows * kPiecesW; at += kInt8Threads) {
    const int row = at / kPiecesW, k = k0 + at % kPiecesW * 16, bytes = n0 + row < p.N ? max(0, min(16, p.K - k)) : 0;
    copy_async(to + uint32_t(row * Ring::kPitchW + at % kPiecesW * 16), bytes ? p.w + (n0 + row) * p.w_row + k : p.w, bytes);
  }
  constexpr int kPieceOfScales = Ring::kPitchScales < 16 ? Ring::kPitchScales : 16, kPiecesS = Ring::kPitchScales / kPieceOfScales;
  for (int at = thread; at < Ring::kRows * kPiecesS; at += kInt8Threads) {
    const int row = at / kPiecesS, g = k0 / 32 + at % kPiecesS * (kPieceOfScales / 2);
    const int bytes = n0 + row < p.N ? max(0, min(kPieceOfScales, ((p.K + 31) / 32 - g) * 2)) : 0;
    const __half* from = bytes ? p.scales + (n0 + row) * p.scales_row + g : p.scales;
    const uint32_t address = to + Ring::kScales + uint32_t(row * Ring::kPitchScales + at % kPiecesS * kPieceOfScales);
    if constexpr (kPieceOfScales == 16)
      copy_async(address, from, bytes);
    else
      asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(address), "l"(from), "r"(bytes));
  }
#pragma unroll
  for (int at = thread; at < Ring::kCols * kPiecesX; at += kInt8Threads) {
    const int row = at / kPiecesX, k = k0 + at % kPiecesX * 8, bytes = m0 + row < p.M && k < p.K ? 16 : 0;  // K is a multiple of 8
    copy_async(to + Ring::kX + uint32_t(row * Ring::kPitchX + at % kPiecesX * 16), bytes ? p.x + (m0 + row) * p.x_row + k : p.x, bytes);
  }
}

// Equation: C = X W^T + bias, then the activation; W[n, k] = w[n, k] scales[n, k / 32], rounded to bf16.
// Layout:   X [M, K], w [N, K], scales [N, ceil(K / 32)] and C [M, N], with row strides; bias [N].
// Order:    as few_rows_bf16: K in blocks of 16, one mma after the other from zero. Rows of W are spread over warps and blocks, K never is.
// Requires: 128 threads; rows of X, w and scales are aligned to sixteen bytes, K is a multiple of 8.
// Traffic:  w and scales once for kCols rows of X; X once for every kRows rows of W, from L2.
template <class Out, class Ring>
__global__ void __launch_bounds__(kInt8Threads) multiply_int8_few(const Int8Params<Out> p) {
  static_assert(Ring::kRows % 16 == 0 && Ring::kRows <= 64 && Ring::kCols % 8 == 0 && Ring::kDepth % 32 == 0);
  constexpr int kGroups = Ring::kCols / 8, kSharing = 4 / (Ring::kRows / 16);  // groups of eight rows of X; warps that share 16 rows of W
  constexpr int kMine = kGroups < kSharing ? 1 : kGroups / kSharing;
  extern __shared__ __align__(128) unsigned char memory[];
  const uint32_t ring = shared_address(memory);
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, row0 = warp / kSharing * 16, group0 = warp % kSharing * kMine;
  const int n0 = int(blockIdx.x) * Ring::kRows, m0 = int(blockIdx.y) * Ring::kCols, steps = (p.K + Ring::kDepth - 1) / Ring::kDepth;
  FragmentC sum[kMine] = {};
  const auto stage = [&](int step) { return ring + uint32_t(step % Ring::kStages) * Ring::kStage; };
  const auto load = [&](int step) {
    if (step < steps) load_stage<Out, Ring>(p, n0, m0, stage(step), step * Ring::kDepth);
    copies_end();  // also after the last step, because copies_wait counts groups
  };
  const auto compute = [&](uint32_t at) {
    const uint32_t w = at + uint32_t((row0 + lane / 4) * Ring::kPitchW + lane % 4 * 2);
    const uint32_t scales = at + Ring::kScales + uint32_t((row0 + lane / 4) * Ring::kPitchScales), x = at + Ring::kX;
#pragma unroll 4
    for (int k = 0; k < Ring::kDepth; k += 32) {
      const float upper = load_scale(scales + k / 16), lower = load_scale(scales + k / 16 + 8 * Ring::kPitchScales);
      FragmentA a[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          a[half].r[i] =
              widened_pair(load_two_bytes(w + uint32_t(k + half * 16 + i / 2 * 8 + i % 2 * 8 * Ring::kPitchW)), i % 2 == 0 ? upper : lower);
      FragmentB b[2][kMine];  // for both blocks of 16
#pragma unroll
      for (int g = 0; g < kMine; ++g) {
        uint32_t r[4];  // eight rows of X, 32 elements of K
        load_matrices(r, x + uint32_t(((group0 + g) * 8 + lane % 8) * Ring::kPitchX + (k + lane / 8 * 8) * 2));
        b[0][g] = {{r[0], r[1]}};
        b[1][g] = {{r[2], r[3]}};
      }
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int g = 0; g < kMine; ++g) multiply_add(sum[g], a[half], b[half][g]);
    }
  };
#pragma unroll 1
  for (int s = 0; s < Ring::kStages - 1; ++s) load(s);
#pragma unroll 1
  for (int s = 0; s < steps; ++s) {
    copies_wait<Ring::kStages - 2>();
    __syncthreads();  // step s has arrived, and no thread uses the stage of step s - 1, which is loaded next
    load(s + Ring::kStages - 1);
    if (group0 < kGroups) compute(stage(s));
  }
  if (group0 >= kGroups) return;
#pragma unroll
  for (int g = 0; g < kMine; ++g)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = n0 + row0 + FragmentC::row(i, lane), m = m0 + (group0 + g) * 8 + FragmentC::column(i, lane);
      if (n < p.N && m < p.M) p.finish(sum[g].x[i], p.bias, p.wide_bias, n, p.c + m * p.c_row + n, nullptr);
    }
}

}  // namespace weft::cuda
