#include "weft/ops/transpose_2d/transpose_2d.h"
#include "weft/tile/cuda/launch.h"

namespace weft::cuda {
namespace {

constexpr int kTile = 64, kThreads = 256;

template <class T>
struct Params {
  const T* x;
  T* y;
  int64_t M, N, x_stride, y_stride, x_batch, y_batch;
  bool aligned;  // rows of x and y start at 16 bytes
};

// Equation: y[n, m] = x[m, n].
// Layout:   x [B, M, N], y [B, N, M], strides for batch and row, unit stride within a row. T has the element's size.
// Order:    no sums; a block moves a tile of 64 x 64 through shared memory.
// Requires: unit stride within rows (the contract's); unaligned rows and edges go element by element.
// Traffic:  one read of x and one write of y, sixteen bytes at a time, by streaming stores.
template <class T>
__global__ void __launch_bounds__(kThreads) transpose(const Params<T> p) {
  constexpr int kWidth = 16 / int(sizeof(T)), kAcross = kTile / kWidth, kDown = kThreads / kAcross;
  struct alignas(16) Vector {
    T at[kWidth];
  };
  __shared__ T tile[kTile][kTile + 4 / sizeof(T)];  // one word past the row: columns fall into different banks
  const int64_t m0 = int64_t(blockIdx.y) * kTile, n0 = int64_t(blockIdx.x) * kTile;
  const T* x = p.x + int64_t(blockIdx.z) * p.x_batch;
  T* y = p.y + int64_t(blockIdx.z) * p.y_batch;
  const int lane = int(threadIdx.x) % kAcross * kWidth, first = int(threadIdx.x) / kAcross;
#pragma unroll
  for (int m = first; m < kTile; m += kDown) {
    const int64_t row = m0 + m, column = n0 + lane;
    if (row >= p.M) continue;
    Vector v;
    if (p.aligned && column + kWidth <= p.N)
      *reinterpret_cast<uint4*>(v.at) = __ldcs(reinterpret_cast<const uint4*>(x + row * p.x_stride + column));
    else
      for (int i = 0; i < kWidth; ++i) v.at[i] = column + i < p.N ? x[row * p.x_stride + column + i] : T(0);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) tile[m][lane + i] = v.at[i];
  }
  __syncthreads();
#pragma unroll
  for (int n = first; n < kTile; n += kDown) {
    const int64_t row = n0 + n, column = m0 + lane;
    if (row >= p.N) continue;
    Vector v;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) v.at[i] = tile[lane + i][n];
    if (p.aligned && column + kWidth <= p.M)
      __stcs(reinterpret_cast<uint4*>(y + row * p.y_stride + column), *reinterpret_cast<const uint4*>(v.at));
    else
      for (int i = 0; i < kWidth; ++i)
        if (column + i < p.M) y[row * p.y_stride + column + i] = v.at[i];
  }
}

template <class T>
void run(Stream& stream, const Transpose2dArgs& a) {
  const int rank = a.x.rank();
  const int64_t B = rank == 3 ? a.x.shape[0] : 1, M = a.x.shape[rank - 2], N = a.x.shape[rank - 1];
  Params<T> p{data<T>(a.x),
              data<T>(a.y),
              M,
              N,
              a.x.strides[rank - 2],
              a.y.strides[rank - 2],
              rank == 3 ? a.x.strides[0] : 0,
              rank == 3 ? a.y.strides[0] : 0,
              false};
  const auto whole = [](int64_t stride) { return stride * int64_t(sizeof(T)) % 16 == 0; };
  p.aligned = aligned16(p.x) && aligned16(p.y) && whole(p.x_stride) && whole(p.y_stride) && whole(p.x_batch) && whole(p.y_batch);
  const Launch launch(stream, a.kOp, {&a.x});
  check(B <= 65535 && (M + kTile - 1) / kTile <= 65535, a.kOp, "shape ", a.x.shape, " is more than this device takes in one launch");
  launch(dim3(unsigned((N + kTile - 1) / kTile), unsigned((M + kTile - 1) / kTile), unsigned(B)), kThreads, 0, transpose<T>, p);
}

}  // namespace

void transpose_2d(Stream& stream, const Transpose2dArgs& args) {
  switch (size_of(args.x.dtype)) {
    case 1: return run<uint8_t>(stream, args);
    case 2: return run<uint16_t>(stream, args);
    default: return run<uint32_t>(stream, args);
  }
}

}  // namespace weft::cuda
