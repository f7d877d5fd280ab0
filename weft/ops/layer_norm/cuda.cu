#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/tile/cuda/column_sums.cuh"

namespace weft::cuda {
namespace {

template <class T, class Weight>
struct Forward {
  const T *x, *residual;
  const Weight *w, *b;
  T *h, *y;
  float *mean, *rstd;
  int64_t rows, x_stride, residual_stride, h_stride, y_stride;
  int columns;
  bool aligned;
  float eps;
};

// Equation: y = (h - mean) rstd w (+ b), mean = sum(h) / C, rstd = 1 / sqrt(sum((h - mean)^2) / C + eps), h = x (+ residual).
// Layout:   x, residual, h, y [R, C] with a row stride each, w, b [C], mean, rstd [R].
// Order:    a group of threads per row; both sums by thread over its chunks, then over the group (group.cuh).
// Requires: unit stride within a row (the contract's); unaligned rows go element by element.
// Traffic:  one read of each input, one write of each output; rows longer than a block holds are read again.
template <class T, class Weight, class W>
__global__ void __launch_bounds__(Group<W::kThreads>::kBlockThreads) forward(const Forward<T, Weight> p) {
  using G = Group<W::kThreads>;
  extern __shared__ __align__(16) unsigned char shared[];
  G group;
  const Row<Weight, W> w(p.w, p.columns, p.aligned), b(p.b ? p.b : p.w, p.columns, p.aligned);
  const float over_columns = p.columns ? 1.0f / float(p.columns) : 0.0f;
  auto in = stream_rows<T, W, 1>(
      shared, [&](int, int64_t r) { return p.x + r * p.x_stride; }, G::index(), G::count(), p.rows, p.columns, p.aligned);
  for (; in.has_row(); in.advance()) {
    const int64_t r = in.row();
    in.arrive();
    float sum = 0;
    W::each(p.columns, [&](auto at) {
      auto piece = in.piece(0, at);
      if (p.residual) {  // the rounded h is what is normalised, so that the backward sees the same values
        const auto more = get<W>(p.residual + r * p.residual_stride, at, p.aligned);
#pragma unroll
        for (int i = 0; i < W::kWidth; ++i) piece.set(i, piece[i] + more[i]);
        put<W>(piece, p.h + r * p.h_stride, at, p.aligned);
        if constexpr (W::kHeld) in.replace(0, at, piece);
      }
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) sum += piece[i];
    });
    if constexpr (!W::kHeld)
      if (p.residual) in.read_from(p.h + r * p.h_stride);
    const float mean = group.sum(sum) * over_columns;
    float squares = 0;
    W::each(p.columns, [&](auto at) {
      const auto piece = in.piece(0, at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        const float v = at.has(i) ? piece[i] - mean : 0.0f;
        squares = fmaf(v, v, squares);
      }
    });
    const float rstd = 1.0f / sqrtf(group.sum(squares) * over_columns + p.eps);
    if (G::rank() == 0) {
      p.mean[r] = mean;
      p.rstd[r] = rstd;
    }
    W::each(p.columns, [&](auto at) {
      auto piece = in.piece(0, at);
      const auto weight = w.piece(at), bias = b.piece(at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        const float z = (piece[i] - mean) * rstd;
        piece.set(i, p.b ? fmaf(z, weight[i], bias[i]) : z * weight[i]);
      }
      put<W>(piece, p.y + r * p.y_stride, at, p.aligned);
    });
  }
}

template <class T, class Weight>
struct Backward {
  const T *dy, *dh, *h;
  const Weight* w;
  const float *mean, *rstd;
  T* dx;
  float *dw_partial, *db_partial;  // [P, C] each; db_partial may be absent
  int64_t rows, partials, dy_stride, dh_stride, h_stride, dx_stride;
  int columns;
  bool aligned;
};

// Equation: dx = rstd (g - s1 / C - z s2 / C) (+ dh), g = dy w, z = (h - mean) rstd, s1 = sum(g), s2 = sum(g z);
//           dw = sum over rows of dy z, db = sum over rows of dy.
// Layout:   dy, dh, h, dx [R, C] with a row stride each, w [C], mean, rstd [R], partial sums [P, C].
// Order:    group g takes rows g, g + P, ...; s1, s2 as in the forward; dw, db in two stages (column_sums.cuh).
// Requires: as the forward; P groups.
// Traffic:  one read of dy, dh, h, one write of dx; P rows of dw and db written and read.
template <class T, class Weight, class W>
__global__ void __launch_bounds__(Group<W::kThreads>::kBlockThreads) backward(const Backward<T, Weight> p) {
  using G = Group<W::kThreads>;
  extern __shared__ __align__(16) unsigned char shared[];
  if (G::index() >= p.partials) return;  // only whole warps leave: groups of a block that has several are warps
  G group;
  ColumnSums<W> dw(p.dw_partial + G::index() * p.columns, p.columns);
  ColumnSums<W> db((p.db_partial ? p.db_partial : p.dw_partial) + G::index() * p.columns, p.columns);
  const Row<Weight, W> w(p.w, p.columns, p.aligned);
  const float over_columns = p.columns ? 1.0f / float(p.columns) : 0.0f;
  auto in = stream_rows<T, W, 2>(
      shared, [&](int operand, int64_t r) { return operand == 0 ? p.dy + r * p.dy_stride : p.h + r * p.h_stride; }, G::index(), p.partials,
      p.rows, p.columns, p.aligned);
  for (; in.has_row(); in.advance()) {
    const int64_t r = in.row();
    const float mean = p.mean[r], rstd = p.rstd[r];
    in.arrive();
    float s1 = 0, s2 = 0;
    W::each(p.columns, [&](auto at) {
      const auto d = in.piece(0, at), v = in.piece(1, at);
      const auto weight = w.piece(at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        const float g = d[i] * weight[i];
        s1 += g;
        s2 = fmaf(g, (v[i] - mean) * rstd, s2);
      }
    });
    const float offset = group.sum(s1) * over_columns, slope = group.sum(s2) * over_columns;
    W::each(p.columns, [&](auto at) {
      const auto d = in.piece(0, at), v = in.piece(1, at);
      const auto weight = w.piece(at);
      Chunk<T, W::kWidth> dx, dh;
      if (p.dh) dh = get<W>(p.dh + r * p.dh_stride, at, p.aligned);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        const float z = (v[i] - mean) * rstd, g = rstd * fmaf(-z, slope, d[i] * weight[i] - offset);
        dw.add(at, i, d[i] * z);
        if (p.db_partial) db.add(at, i, d[i]);
        dx.set(i, p.dh ? g + dh[i] : g);
      }
      put<W>(dx, p.dx + r * p.dx_stride, at, p.aligned);
    });
  }
  if (p.db_partial) db.write(p.columns);
  dw.write(p.columns);
}

template <class T, class Weight>
void run(Stream& stream, const LayerNormArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const Rows residual = a.residual ? as_rows(a.residual, a.kOp, "residual") : Rows{}, h = a.h ? as_rows(a.h, a.kOp, "h") : Rows{};
  const bool aligned = rows_aligned<T>({{&a.x, x.stride}, {&a.residual, residual.stride}, {&a.h, h.stride}, {&a.y, y.stride}}) &&
                       aligned16(data<Weight>(a.w)) && aligned16(data<Weight>(a.b));
  const Forward<T, Weight> p{data<T>(a.x),
                             data<T>(a.residual),
                             data<Weight>(a.w),
                             data<Weight>(a.b),
                             data<T>(a.h),
                             data<T>(a.y),
                             data<float>(a.mean),
                             data<float>(a.rstd),
                             x.rows,
                             x.stride,
                             residual.stride,
                             h.stride,
                             y.stride,
                             columns_of(a.kOp, x),
                             aligned,
                             a.eps};
  const Launch launch(stream, a.kOp, {&a.x, &a.w, &a.y});
  with_whole_walk<kPerVector<T>>(x.columns, p.aligned, [&]<class W>() {
    launch(row_blocks<W, 1>(stream, x.rows), Group<W::kThreads>::kBlockThreads, stream_bytes<W, 1>(), forward<T, Weight, W>, p);
  });
}

template <class T, class Weight>
void run(Stream& stream, const LayerNormBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), h = as_rows(a.h, a.kOp, "h"), dx = as_rows(a.dx, a.kOp, "dx");
  const Rows dh = a.dh ? as_rows(a.dh, a.kOp, "dh") : Rows{};
  const bool aligned =
      rows_aligned<T>({{&a.dy, dy.stride}, {&a.dh, dh.stride}, {&a.h, h.stride}, {&a.dx, dx.stride}}) && aligned16(data<Weight>(a.w));
  const Launch launch(stream, a.kOp, {&a.dy, &a.w, &a.dx});
  with_walk<kPerVector<T>>(dy.columns, [&]<class W>() {
    const int64_t P = partial_rows(dy.rows, W::kThreads);
    const Scratch<float> dw(stream, P * dy.columns), db(stream, a.db ? P * dy.columns : 0);
    const Backward<T, Weight> p{data<T>(a.dy),
                                data<T>(a.dh),
                                data<T>(a.h),
                                data<Weight>(a.w),
                                data<float>(a.mean),
                                data<float>(a.rstd),
                                data<T>(a.dx),
                                dw.data(),
                                a.db ? db.data() : nullptr,
                                dy.rows,
                                P,
                                dy.stride,
                                dh.stride,
                                h.stride,
                                dx.stride,
                                columns_of(a.kOp, dy),
                                aligned};
    launch(unsigned((P + Group<W::kThreads>::kPerBlock - 1) / Group<W::kThreads>::kPerBlock), Group<W::kThreads>::kBlockThreads,
           stream_bytes<W, 2>(), backward<T, Weight, W>, p);
    sum_partials(launch, dw.data(), P, dy.columns, data<float>(a.dw));
    if (a.db) sum_partials(launch, db.data(), P, dy.columns, data<float>(a.db));
  });
}

template <class Args>
void by_dtype(Stream& stream, const Args& args, DType dtype) {
  dispatch_device<float, bf16>(dtype,
                               [&]<class T>() { args.w.dtype == DType::f32 ? run<T, float>(stream, args) : run<T, T>(stream, args); });
}

}  // namespace

void layer_norm(Stream& stream, const LayerNormArgs& args) { by_dtype(stream, args, args.x.dtype); }
void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args) { by_dtype(stream, args, args.dy.dtype); }

}  // namespace weft::cuda
