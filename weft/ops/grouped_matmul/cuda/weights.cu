// Gradients of grouped_matmul for the matrices and the biases of experts.
#include "weft/ops/grouped_matmul/cuda/expert_tiles.cuh"
#include "weft/ops/grouped_matmul/grouped_matmul.h"
#include "weft/tile/cuda/launch.h"
#include "weft/tile/cuda/mma.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

struct Params {
  ExpertRows rows;
  int M, N;
  int64_t a_stride, b_stride;
  bool accumulate, aligned_a, aligned_b;
  Fault* fault;
  const char* op;
};

// A block computes 128x128 of a matrix, each warp 32x64 as 2x8 sums of 16x8.
constexpr int kSide = 128, kRows = 32, kStages = 4, kThreads = 256;
using Tile = SharedTile<kRows, kSide>;
constexpr int kStageBytes = 2 * Tile::kBytes, kBytes = kStages * kStageBytes;

// Equation: c[e] (+)= sum over the rows i of expert e of a[i]^T b[i].
// Layout:   a [P, M] and b [P, N] with a row stride each, c [E, M, N] f32, starts [E + 1].
// Grid:     (ceil(N / 128), ceil(M / 128), E) blocks of eight warps; rows in blocks of 16, one mma.sync after the other from zero, then c.
// Requires: any extents: edges are padded with zeros.
// Traffic:  a and b once per 128 columns of the other; c once, twice when accumulating.
__global__ void __launch_bounds__(kThreads) weights_mma(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, const Params p) {
  extern __shared__ __align__(128) unsigned char bytes[];
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0) p.rows.check(p.fault, p.op);
  const int expert = int(blockIdx.z), m0 = int(blockIdx.y) * kSide, n0 = int(blockIdx.x) * kSide;
  const int first = p.rows.start(expert), count = max(0, p.rows.start(expert + 1) - first), blocks = (count + kRows - 1) / kRows;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, row0 = warp % 4 * 32, column0 = warp / 4 * 64;
  const auto tiles_of = [&](int block) { return shared_address(bytes) + uint32_t(block % kStages * kStageBytes); };
  const auto load = [&](int block) {
    if (block < blocks) {
      const int64_t row = first + block * kRows;
      const int left = count - block * kRows;
      Tile{tiles_of(block)}.load<kThreads>(a + row * p.a_stride + m0, p.a_stride, left, p.M - m0, p.aligned_a, int(threadIdx.x));
      Tile{tiles_of(block) + Tile::kBytes}.load<kThreads>(b + row * p.b_stride + n0, p.b_stride, left, p.N - n0, p.aligned_b,
                                                          int(threadIdx.x));
    }
    copies_end();
  };
  for (int block = 0; block < kStages - 1; ++block) load(block);
  FragmentC sums[2][8] = {};
  for (int block = 0; block < blocks; ++block) {
    copies_wait<kStages - 2>();
    __syncthreads();
    load(block + kStages - 1);
    const Tile left{tiles_of(block)}, right{tiles_of(block) + Tile::kBytes};
#pragma unroll
    for (int k = 0; k < kRows; k += 16) {
      const FragmentA x[2] = {left.a_transposed(k, row0), left.a_transposed(k, row0 + 16)};
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        FragmentB y[2];
        right.b(y, k, column0 + pair * 16);
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          multiply_add(sums[m][2 * pair], x[m], y[0]);
          multiply_add(sums[m][2 * pair + 1], x[m], y[1]);
        }
      }
    }
  }
  float* const to = c + int64_t(expert) * p.M * p.N;
#pragma unroll
  for (int m = 0; m < 2; ++m)
#pragma unroll
    for (int f = 0; f < 8; ++f)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = m0 + row0 + m * 16 + FragmentC::row(i, lane), column = n0 + column0 + f * 8 + FragmentC::column(i, lane);
        if (row >= p.M || column >= p.N) continue;
        float& at = to[int64_t(row) * p.N + column];
        at = p.accumulate ? at + sums[m][f].x[i] : sums[m][f].x[i];
      }
}

constexpr int kSimtSide = 64, kSimtRows = 16;

// Equation, layout: as weights_mma, in f32.
// Grid:     (ceil(N / 64), ceil(M / 64), E) blocks of 256 threads with 4x4 sums each; rows ascending, one FMA each from zero, then c.
// Requires: any extents.
// Traffic:  a and b once per 64 columns of the other; c once, twice when accumulating.
__global__ void __launch_bounds__(256) weights_simt(const float* a, const float* b, float* c, const Params p) {
  __shared__ float left[kSimtRows][kSimtSide], right[kSimtRows][kSimtSide];
  if (blockIdx.x == 0 && blockIdx.y == 0 && blockIdx.z == 0) p.rows.check(p.fault, p.op);
  const int expert = int(blockIdx.z), m0 = int(blockIdx.y) * kSimtSide, n0 = int(blockIdx.x) * kSimtSide;
  const int first = p.rows.start(expert), last = max(first, p.rows.start(expert + 1)), x = int(threadIdx.x) % 16, y = int(threadIdx.x) / 16;
  float sums[4][4] = {};
  for (int k0 = first; k0 < last; k0 += kSimtRows) {
    __syncthreads();
    for (int i = int(threadIdx.x); i < kSimtRows * kSimtSide; i += 256) {
      const int row = i / kSimtSide, column = i % kSimtSide;
      left[row][column] = k0 + row < last && m0 + column < p.M ? a[(k0 + row) * p.a_stride + m0 + column] : 0.0f;
      right[row][column] = k0 + row < last && n0 + column < p.N ? b[(k0 + row) * p.b_stride + n0 + column] : 0.0f;
    }
    __syncthreads();
    for (int k = 0; k < kSimtRows && k0 + k < last; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[i][j] = fmaf(left[k][y + 16 * i], right[k][x + 16 * j], sums[i][j]);
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int row = m0 + y + 16 * i, column = n0 + x + 16 * j;
      if (row >= p.M || column >= p.N) continue;
      float& at = c[(int64_t(expert) * p.M + row) * p.N + column];
      at = p.accumulate ? at + sums[i][j] : sums[i][j];
    }
}

// Equation: y[e] = sum over the rows i of expert e of x[i].
// Layout:   x [P, N] with a row stride, y [E, N], starts [E + 1].
// Grid:     (ceil(N / 128), E) blocks; a thread adds a column, rows ascending.
// Requires: starts ascending from 0 to P; otherwise a fault is reported.
// Traffic:  one read of x, one write of y.
template <class T>
__global__ void __launch_bounds__(128)
    sums_of_rows(const T* x, float* y, int64_t stride, int N, const ExpertRows rows, Fault* fault, const char* op) {
  if (blockIdx.x == 0 && blockIdx.y == 0) rows.check(fault, op);
  const int column = int(blockIdx.x) * 128 + int(threadIdx.x), expert = int(blockIdx.y);
  if (column >= N) return;
  const int last = rows.start(expert + 1);
  float sum = 0;
#pragma unroll 8
  for (int i = rows.start(expert); i < last; ++i) sum += to_float(x[i * stride + column]);
  y[int64_t(expert) * N + column] = sum;
}

unsigned blocks_of(int64_t n, int64_t each) { return unsigned((n + each - 1) / each); }

bool whole_pieces(const View& view, int64_t columns, int64_t stride) {
  return aligned16(data<char>(view)) && columns % 8 == 0 && stride % 8 == 0;
}

}  // namespace

void grouped_matmul_weights(Stream& stream, const GroupedMatmulWeightsArgs& g) {
  const Rows a = as_rows(g.a, g.kOp, "a"), b = as_rows(g.b, g.kOp, "b");
  const Launch launch(stream, g.kOp, {&g.a, &g.b, &g.c});
  const int64_t E = g.c.shape[0];
  const Params p{.rows = {data<int32_t>(g.starts), int(E), int(a.rows)},
                 .M = int(a.columns),
                 .N = int(b.columns),
                 .a_stride = a.stride,
                 .b_stride = b.stride,
                 .accumulate = g.accumulate,
                 .aligned_a = whole_pieces(g.a, a.columns, a.stride),
                 .aligned_b = whole_pieces(g.b, b.columns, b.stride),
                 .fault = launch.fault(),
                 .op = launch.op()};
  if (g.a.dtype == DType::f32)
    return launch(dim3(blocks_of(p.N, kSimtSide), blocks_of(p.M, kSimtSide), unsigned(E)), 256, 0, weights_simt, data<float>(g.a),
                  data<float>(g.b), data<float>(g.c), p);
  launch(dim3(blocks_of(p.N, kSide), blocks_of(p.M, kSide), unsigned(E)), kThreads, kBytes, weights_mma, data<__nv_bfloat16>(g.a),
         data<__nv_bfloat16>(g.b), data<float>(g.c), p);
}

void grouped_sums(Stream& stream, const GroupedSumsArgs& g) {
  const Rows x = as_rows(g.x, g.kOp, "x");
  const Launch launch(stream, g.kOp, {&g.x, &g.y});
  const int64_t E = g.y.shape[0];
  dispatch_device<float, bf16>(g.x.dtype, [&]<class T>() {
    launch(dim3(blocks_of(x.columns, 128), unsigned(E)), 128, 0, sums_of_rows<T>, data<T>(g.x), data<float>(g.y), x.stride, int(x.columns),
           ExpertRows{data<int32_t>(g.starts), int(E), int(x.rows)}, launch.fault(), launch.op());
  });
}

}  // namespace weft::cuda
