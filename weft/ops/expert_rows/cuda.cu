#include "weft/ops/expert_rows/expert_rows.h"
#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/rows.cuh"

namespace weft::cuda {
namespace {

// A matrix of rows.
template <class T>
struct Matrix {
  T* at;
  int64_t stride;
  __device__ __forceinline__ T* row(int64_t r) const { return at + r * stride; }
};

struct Params {
  const int32_t* places;  // or rows
  const float* weights;   // may be null
  int64_t T, P;
  int k, C;
  bool aligned;
  Fault* fault;
  const char* op;

  // The place at i; if it is out of range, reports a fault and returns 0.
  __device__ __forceinline__ int64_t place(int64_t i) const {
    const int64_t place = places[i];
    if (place >= 0 && place < P) return place;
    report(fault, Fault::id_out_of_range, op, place, i, P);
    return 0;
  }
};

// Equation: y[i] = w[p] x[p / k], p = rows[i].
// Layout:   x [T, C] and y [P, C] with a row stride each, rows [P], w [P] or none.
// Order:    no sums; a warp per row.
// Requires: rows in [0, P); any other is reported and read as 0.
// Traffic:  one read of rows and w, one write of y; each row of x k times, mostly from L2.
template <class T>
__global__ void __launch_bounds__(128) gather(const Matrix<const T> x, const Matrix<T> y, const Params p) {
  using W = Walk<32, 0, kPerVector<T>>;
  using G = Group<32>;
  for (int64_t i = G::index(); i < p.P; i += G::count()) {
    const int64_t from = p.place(i);
    const float w = p.weights ? p.weights[from] : 1.0f;
    W::each(p.C, [&](auto at) {
      auto piece = get<W>(x.row(from / p.k), at, p.aligned);
      if (p.weights)
#pragma unroll
        for (int e = 0; e < W::kWidth; ++e) piece.set(e, piece[e] * w);
      put<W>(piece, y.row(i), at, p.aligned);
    });
  }
}

// Equation: y[t] = sum over j of w[t, j] x[places[t, j]].
// Layout:   x [P, C] and y [T, C] with a row stride each, places [T, k], w [T, k] or none.
// Order:    a warp per token; j ascending, one fma each, from 0.
// Requires: places in [0, P); any other is reported and read as 0.
// Traffic:  one read of x, places and w, one write of y.
template <class T>
__global__ void __launch_bounds__(128) sum_rows(const Matrix<const T> x, const Matrix<T> y, const Params p) {
  using W = Walk<32, 0, kPerVector<T>>;
  using G = Group<32>;
  for (int64_t t = G::index(); t < p.T; t += G::count())
    W::each(p.C, [&](auto at) {
      float sum[W::kWidth] = {};
      for (int j = 0; j < p.k; ++j) {
        const float w = p.weights ? p.weights[t * p.k + j] : 1.0f;
        const auto piece = get<W>(x.row(p.place(t * p.k + j)), at, p.aligned);
#pragma unroll
        for (int e = 0; e < W::kWidth; ++e) sum[e] = fmaf(w, piece[e], sum[e]);
      }
      Chunk<T, W::kWidth> out;
#pragma unroll
      for (int e = 0; e < W::kWidth; ++e) out.set(e, sum[e]);
      put<W>(out, y.row(t), at, p.aligned);
    });
}

// Equation: d[t, j] = sum over c of dy[t, c] x[places[t, j], c].
// Layout:   dy [T, C] and x [P, C] with a row stride each, places and d [T, k].
// Order:    a warp per row; lane l adds chunks l, l + 32, ... of 16 bytes in order, then a butterfly over the lanes.
// Requires: places in [0, P); any other is reported and read as 0.
// Traffic:  one read of x and places, one write of d; dy k times, mostly from cache.
template <class T>
__global__ void __launch_bounds__(128) row_dots(const Matrix<const T> dy, const Matrix<const T> x, float* dots, const Params p) {
  using W = Walk<32, 0, kPerVector<T>>;
  using G = Group<32>;
  for (int64_t i = G::index(); i < p.P; i += G::count()) {
    const T* row = x.row(p.place(i));
    float sum = 0;
    W::each(p.C, [&](auto at) {
      const auto g = get<W>(dy.row(i / p.k), at, p.aligned), v = get<W>(row, at, p.aligned);
#pragma unroll
      for (int e = 0; e < W::kWidth; ++e)
        if (at.has(e)) sum = fmaf(g[e], v[e], sum);
    });
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (G::rank() == 0) dots[i] = sum;
  }
}

Params params_of(const Launch& launch, const View& places, const View& weights, int64_t T, int64_t P, int64_t C, bool aligned) {
  return {data<int32_t>(places),
          weights ? data<float>(weights) : nullptr,
          T,
          P,
          T ? int(P / T) : 0,
          int(C),
          aligned,
          launch.fault(),
          launch.op()};
}

}  // namespace

void expert_rows(Stream& stream, const ExpertRowsArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const Launch launch(stream, a.kOp, {&a.x, &a.y});
  dispatch_device<float, bf16>(a.x.dtype, [&]<class T>() {
    const bool aligned = rows_aligned<T>({{&a.x, x.stride}, {&a.y, y.stride}});
    launch(blocks_for(stream, y.rows * 32, 128), 128, 0, gather<T>, Matrix<const T>{data<T>(a.x), x.stride},
           Matrix<T>{data<T>(a.y), y.stride}, params_of(launch, a.rows, a.weights, x.rows, y.rows, x.columns, aligned));
  });
}

void expert_sum(Stream& stream, const ExpertSumArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const Launch launch(stream, a.kOp, {&a.x, &a.y});
  dispatch_device<float, bf16>(a.x.dtype, [&]<class T>() {
    const bool aligned = rows_aligned<T>({{&a.x, x.stride}, {&a.y, y.stride}});
    launch(blocks_for(stream, y.rows * 32, 128), 128, 0, sum_rows<T>, Matrix<const T>{data<T>(a.x), x.stride},
           Matrix<T>{data<T>(a.y), y.stride}, params_of(launch, a.places, a.weights, y.rows, x.rows, x.columns, aligned));
  });
}

void expert_dots(Stream& stream, const ExpertDotsArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), dy = as_rows(a.dy, a.kOp, "dy");
  const Launch launch(stream, a.kOp, {&a.dy, &a.x});
  dispatch_device<float, bf16>(a.x.dtype, [&]<class T>() {
    const bool aligned = rows_aligned<T>({{&a.x, x.stride}, {&a.dy, dy.stride}});
    launch(blocks_for(stream, x.rows * 32, 128), 128, 0, row_dots<T>, Matrix<const T>{data<T>(a.dy), dy.stride},
           Matrix<const T>{data<T>(a.x), x.stride}, data<float>(a.dots),
           params_of(launch, a.places, {}, dy.rows, x.rows, x.columns, aligned));
  });
}

}  // namespace weft::cuda
