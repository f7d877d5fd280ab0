// The kernels of rms_norm and layer_norm on CUDA (row_norm.h). kCentred: layer_norm, with a mean and perhaps a bias.
#pragma once

#include <type_traits>

#include "weft/ops/row_norm/cuda_params.cuh"
#include "weft/ops/row_norm/cuda_warp.cuh"
#include "weft/ops/row_norm/row_norm.h"
#include "weft/tile/cuda/column_sums.cuh"

namespace weft::cuda {

// Equation: y = (h - mean) rstd w (+ b), rstd = 1 / sqrt(mean((h - mean)^2) + eps), h = x (+ residual); mean = 0 unless centred.
// Layout:   x, residual, h, y [R, C] with a row stride each, w, b [C], mean, rstd [R].
// Order:    a group of threads per row; every sum by thread over its chunks, then over the group (group.cuh).
// Requires: unit stride within a row (the contract's); unaligned rows go element by element.
// Traffic:  one read of each input, one write of each output; rows longer than a block holds are read again.
template <class T, class Weight, class W, bool kCentred>
__global__ void __launch_bounds__(Group<W::kThreads>::kBlockThreads) norm_forward(const RowNorm<T, Weight> p) {
  using G = Group<W::kThreads>;
  extern __shared__ __align__(16) unsigned char shared[];
  G group;
  const Row<Weight, W> w(p.w, p.columns, p.aligned), b(kCentred && p.b ? p.b : p.w, p.columns, p.aligned);
  const float over_columns = p.columns ? 1.0f / float(p.columns) : 0.0f;
  auto in = stream_rows<T, W, 1>(
      shared, [&](int, int64_t r) { return p.x + r * p.x_stride; }, G::index(), G::count(), p.rows, p.columns, p.aligned);
  for (; in.has_row(); in.advance()) {
    const int64_t r = in.row();
    in.arrive();
    float sum = 0;  // of h where centred, else of h^2
    W::each(p.columns, [&](auto at) {
      auto piece = in.piece(0, at);
      if (p.residual) {  // the rounded h is normalised, so that the backward sees the same values
        const auto more = get<W>(p.residual + r * p.residual_stride, at, p.aligned);
#pragma unroll
        for (int i = 0; i < W::kWidth; ++i) piece.set(i, piece[i] + more[i]);
        put<W>(piece, p.h + r * p.h_stride, at, p.aligned);
        if constexpr (W::kHeld) in.replace(0, at, piece);
      }
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) sum = kCentred ? sum + piece[i] : fmaf(piece[i], piece[i], sum);
    });
    if constexpr (!W::kHeld)
      if (p.residual) in.read_from(p.h + r * p.h_stride);
    float mean = 0, mean_square = 0;
    if constexpr (kCentred) {
      mean = group.sum(sum) * over_columns;
      float squares = 0;
      W::each(p.columns, [&](auto at) {
        const auto piece = in.piece(0, at);
#pragma unroll
        for (int i = 0; i < W::kWidth; ++i) {
          const float v = at.has(i) ? piece[i] - mean : 0.0f;
          squares = fmaf(v, v, squares);
        }
      });
      mean_square = group.sum(squares) * over_columns;
    } else {
      mean_square = p.columns ? group.sum(sum) / float(p.columns) : 0.0f;
    }
    const float rstd = 1.0f / sqrtf(mean_square + p.eps);
    if (G::rank() == 0) {
      if constexpr (kCentred) p.mean[r] = mean;
      p.rstd[r] = rstd;
    }
    W::each(p.columns, [&](auto at) {
      auto piece = in.piece(0, at);
      const auto weight = w.piece(at), bias = b.piece(at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        const float z = (kCentred ? piece[i] - mean : piece[i]) * rstd;
        piece.set(i, kCentred && p.b ? fmaf(z, weight[i], bias[i]) : z * weight[i]);
      }
      put<W>(piece, p.y + r * p.y_stride, at, p.aligned);
    });
  }
}

// Stands in for db where there is none.
struct NoColumnSums {
  __device__ __forceinline__ NoColumnSums(float*, int) {}
  template <class At>
  __device__ __forceinline__ void add(At, int, float) {}
  __device__ __forceinline__ void write(int) const {}
};

// Equation: dx = rstd (g - s1 / C - z s2 / C) (+ dh), g = dy w, z = (h - mean) rstd, s1 = sum(g), s2 = sum(g z);
//           dw = sum over rows of dy z, db = sum over rows of dy. Not centred: no mean, no s1, and dx = rstd (g - h p),
//           p = sum(g h) rstd^2 / C.
// Layout:   dy, dh, h, dx [R, C] with a row stride each, w [C], mean, rstd [R], partial sums [P, C].
// Order:    group g takes rows g, g + P, ...; s1, s2 as in the forward; dw, db in two stages (column_sums.cuh).
// Requires: as the forward; P groups.
// Traffic:  one read of dy, dh, h, one write of dx; P rows of dw and db written and read.
template <class T, class Weight, class W, bool kCentred>
__global__ void __launch_bounds__(Group<W::kThreads>::kBlockThreads) norm_backward(const RowNormBackward<T, Weight> p) {
  using G = Group<W::kThreads>;
  extern __shared__ __align__(16) unsigned char shared[];
  if (G::index() >= p.partials) return;  // only whole warps leave: groups of a block that has several are warps
  G group;
  ColumnSums<W> dw(p.dw_partial + G::index() * p.columns, p.columns);
  std::conditional_t<kCentred, ColumnSums<W>, NoColumnSums> db((p.db_partial ? p.db_partial : p.dw_partial) + G::index() * p.columns,
                                                               p.columns);
  const Row<Weight, W> w(p.w, p.columns, p.aligned);
  const float over_columns = p.columns ? 1.0f / float(p.columns) : 0.0f;
  auto in = stream_rows<T, W, 2>(
      shared, [&](int operand, int64_t r) { return operand == 0 ? p.dy + r * p.dy_stride : p.h + r * p.h_stride; }, G::index(), p.partials,
      p.rows, p.columns, p.aligned);
  for (; in.has_row(); in.advance()) {
    const int64_t r = in.row();
    const float mean = kCentred ? p.mean[r] : 0.0f, rstd = p.rstd[r];
    in.arrive();
    float s1 = 0, s2 = 0;
    W::each(p.columns, [&](auto at) {
      const auto d = in.piece(0, at), v = in.piece(1, at);
      const auto weight = w.piece(at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        const float g = d[i] * weight[i];
        if constexpr (kCentred) s1 += g;
        s2 = fmaf(g, kCentred ? (v[i] - mean) * rstd : v[i], s2);
      }
    });
    float mean_g = 0, projection = 0;
    if constexpr (kCentred) {
      mean_g = group.sum(s1) * over_columns;
      projection = group.sum(s2) * over_columns;
    } else {
      projection = group.sum(s2) * rstd * rstd / float(p.columns);
    }
    W::each(p.columns, [&](auto at) {
      const auto d = in.piece(0, at), v = in.piece(1, at);
      const auto weight = w.piece(at);
      Chunk<T, W::kWidth> dx, dh;
      if (p.dh) dh = get<W>(p.dh + r * p.dh_stride, at, p.aligned);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        float own;
        if constexpr (kCentred) {
          const float z = (v[i] - mean) * rstd;
          own = rstd * fmaf(-z, projection, d[i] * weight[i] - mean_g);
          dw.add(at, i, d[i] * z);
          if (p.db_partial) db.add(at, i, d[i]);
        } else {
          dw.add(at, i, d[i] * v[i] * rstd);
          own = rstd * fmaf(-v[i], projection, d[i] * weight[i]);
        }
        dx.set(i, p.dh ? own + dh[i] : own);
      }
      put<W>(dx, p.dx + r * p.dx_stride, at, p.aligned);
    });
  }
  if (kCentred && p.db_partial) db.write(p.columns);
  dw.write(p.columns);
}

template <bool kCentred, class T, class Weight>
void launch_norm(Stream& stream, const RowNormArgs& a) {
  constexpr const char* kOp = kRowNorm<kCentred>;
  const Rows x = as_rows(a.x, kOp, "x"), y = as_rows(a.y, kOp, "y");
  const Rows residual = a.residual ? as_rows(a.residual, kOp, "residual") : Rows{}, h = a.h ? as_rows(a.h, kOp, "h") : Rows{};
  const bool aligned = rows_aligned<T>({{&a.x, x.stride}, {&a.residual, residual.stride}, {&a.h, h.stride}, {&a.y, y.stride}}) &&
                       aligned16(data<Weight>(a.w)) && aligned16(data<Weight>(a.b));
  const RowNorm<T, Weight> p{.x = data<T>(a.x),
                             .residual = data<T>(a.residual),
                             .w = data<Weight>(a.w),
                             .b = data<Weight>(a.b),
                             .h = data<T>(a.h),
                             .y = data<T>(a.y),
                             .mean = data<float>(a.mean),
                             .rstd = data<float>(a.rstd),
                             .rows = x.rows,
                             .x_stride = x.stride,
                             .residual_stride = residual.stride,
                             .h_stride = h.stride,
                             .y_stride = y.stride,
                             .columns = columns_of(kOp, x),
                             .aligned = aligned,
                             .eps = a.eps};
  const Launch launch(stream, kOp, {&a.x, &a.w, &a.y});
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    if (aligned && row_of_warp(x.columns))
      return launch(row_blocks<Walk<32, 1, kPerVector<T>, true>, 1>(stream, x.rows), 128, 0, norm_forward_by_warp<Weight, kCentred>, p);
  with_whole_walk<kPerVector<T>>(x.columns, aligned, [&]<class W>() {
    launch(row_blocks<W, 1>(stream, x.rows), Group<W::kThreads>::kBlockThreads, stream_bytes<W, 1>(), norm_forward<T, Weight, W, kCentred>,
           p);
  });
}

template <bool kCentred, class T, class Weight>
void launch_norm(Stream& stream, const RowNormBackwardArgs& a) {
  constexpr const char* kOp = kRowNormBackward<kCentred>;
  const Rows dy = as_rows(a.dy, kOp, "dy"), h = as_rows(a.h, kOp, "h"), dx = as_rows(a.dx, kOp, "dx");
  const Rows dh = a.dh ? as_rows(a.dh, kOp, "dh") : Rows{};
  const bool aligned =
      rows_aligned<T>({{&a.dy, dy.stride}, {&a.dh, dh.stride}, {&a.h, h.stride}, {&a.dx, dx.stride}}) && aligned16(data<Weight>(a.w));
  const Launch launch(stream, kOp, {&a.dy, &a.w, &a.dx});
  const auto with_partials = [&](int threads, auto&& start) {  // start(p): a launch that fills P rows of partial sums
    const int64_t P = partial_rows(dy.rows, threads);
    const Scratch<float> dw(stream, P * dy.columns), db(stream, a.db ? P * dy.columns : 0);
    start(RowNormBackward<T, Weight>{.dy = data<T>(a.dy),
                                     .dh = data<T>(a.dh),
                                     .h = data<T>(a.h),
                                     .w = data<Weight>(a.w),
                                     .mean = data<float>(a.mean),
                                     .rstd = data<float>(a.rstd),
                                     .dx = data<T>(a.dx),
                                     .dw_partial = dw.data(),
                                     .db_partial = a.db ? db.data() : nullptr,
                                     .rows = dy.rows,
                                     .partials = P,
                                     .dy_stride = dy.stride,
                                     .dh_stride = dh.stride,
                                     .h_stride = h.stride,
                                     .dx_stride = dx.stride,
                                     .columns = columns_of(kOp, dy),
                                     .aligned = aligned});
    sum_partials(launch, dw.data(), P, dy.columns, data<float>(a.dw));
    if (a.db) sum_partials(launch, db.data(), P, dy.columns, data<float>(a.db));
  };
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    if (aligned && row_of_warp(dy.columns))
      return with_partials(128, [&](const RowNormBackward<T, Weight>& p) {
        launch(unsigned(p.partials), 32, RowsAhead<Weight>::bytes(dy.columns), norm_backward_by_warp<Weight, kCentred>, p);
      });
  with_walk<kPerVector<T>>(dy.columns, [&]<class W>() {
    with_partials(W::kThreads, [&](const RowNormBackward<T, Weight>& p) {
      using G = Group<W::kThreads>;
      launch(unsigned((p.partials + G::kPerBlock - 1) / G::kPerBlock), G::kBlockThreads, stream_bytes<W, 2>(),
             norm_backward<T, Weight, W, kCentred>, p);
    });
  });
}

template <bool kCentred, class Args>
void launch_norm(Stream& stream, const Args& args, DType dtype) {
  dispatch_device<float, bf16>(dtype, [&]<class T>() {
    args.w.dtype == DType::f32 ? launch_norm<kCentred, T, float>(stream, args) : launch_norm<kCentred, T, T>(stream, args);
  });
}

}  // namespace weft::cuda
