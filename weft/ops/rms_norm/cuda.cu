#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/tile/cuda/column_sums.cuh"

namespace weft::cuda {
namespace {

template <class T, class Weight>
struct Forward {
  const T *x, *residual;
  const Weight* w;
  T *h, *y;
  float* rstd;
  int64_t rows, x_stride, residual_stride, h_stride, y_stride;
  int columns;
  bool aligned;
  float eps;
};

// Equation: y = h rstd w, rstd = 1 / sqrt(mean(h^2) + eps), h = x (+ residual).
// Layout:   x, residual, h, y [R, C] with a row stride each, w [C], rstd [R].
// Order:    a group of threads per row; the sum by thread over its chunks, then over the group (group.cuh).
// Requires: unit stride within a row (the contract's); unaligned rows go element by element.
// Traffic:  one read of each input, one write of each output; rows longer than a block holds are read again.
template <class T, class Weight, class W>
__global__ void __launch_bounds__(Group<W::kThreads>::kBlockThreads) forward(const Forward<T, Weight> p) {
  using G = Group<W::kThreads>;
  extern __shared__ __align__(16) unsigned char shared[];
  G group;
  const Row<Weight, W> w(p.w, p.columns, p.aligned);
  auto in = stream_rows<T, W, 1>(
      shared, [&](int, int64_t r) { return p.x + r * p.x_stride; }, G::index(), G::count(), p.rows, p.columns, p.aligned);
  for (; in.has_row(); in.advance()) {
    const int64_t r = in.row();
    in.arrive();
    float squares = 0;
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
      for (int i = 0; i < W::kWidth; ++i) squares = fmaf(piece[i], piece[i], squares);
    });
    if constexpr (!W::kHeld)
      if (p.residual) in.read_from(p.h + r * p.h_stride);
    const float mean = p.columns ? group.sum(squares) / float(p.columns) : 0.0f, rstd = 1.0f / sqrtf(mean + p.eps);
    if (G::rank() == 0) p.rstd[r] = rstd;
    W::each(p.columns, [&](auto at) {
      auto piece = in.piece(0, at);
      const auto weight = w.piece(at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) piece.set(i, piece[i] * rstd * weight[i]);
      put<W>(piece, p.y + r * p.y_stride, at, p.aligned);
    });
  }
}

template <class T, class Weight>
struct Backward {
  const T *dy, *dh, *h;
  const Weight* w;
  const float* rstd;
  T* dx;
  float* partial;  // [P, C]
  int64_t rows, partials, dy_stride, dh_stride, h_stride, dx_stride;
  int columns;
  bool aligned;
};

// Equation: dx = rstd (dy w - h rstd^2 s / C) (+ dh), s = sum(dy w h); dw = sum over rows of dy h rstd.
// Layout:   dy, dh, h, dx [R, C] with a row stride each, w [C], rstd [R], partial [P, C].
// Order:    group g takes rows g, g + P, ...; s as in the forward; dw in two stages (column_sums.cuh).
// Requires: as the forward; P groups.
// Traffic:  one read of dy, dh, h, one write of dx; P rows of dw written and read.
template <class T, class Weight, class W>
__global__ void __launch_bounds__(Group<W::kThreads>::kBlockThreads) backward(const Backward<T, Weight> p) {
  using G = Group<W::kThreads>;
  extern __shared__ __align__(16) unsigned char shared[];
  if (G::index() >= p.partials) return;  // only whole warps leave: groups of a block that has several are warps
  G group;
  ColumnSums<W> dw(p.partial + G::index() * p.columns, p.columns);
  const Row<Weight, W> w(p.w, p.columns, p.aligned);
  auto in = stream_rows<T, W, 2>(
      shared, [&](int operand, int64_t r) { return operand == 0 ? p.dy + r * p.dy_stride : p.h + r * p.h_stride; }, G::index(), p.partials,
      p.rows, p.columns, p.aligned);
  for (; in.has_row(); in.advance()) {
    const int64_t r = in.row();
    const float rstd = p.rstd[r];
    in.arrive();
    float s = 0;
    W::each(p.columns, [&](auto at) {
      const auto g = in.piece(0, at), v = in.piece(1, at);
      const auto weight = w.piece(at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) s = fmaf(g[i] * weight[i], v[i], s);
    });
    const float slope = group.sum(s) * rstd * rstd / float(p.columns);
    W::each(p.columns, [&](auto at) {
      const auto g = in.piece(0, at), v = in.piece(1, at);
      const auto weight = w.piece(at);
      Chunk<T, W::kWidth> dx, dh;
      if (p.dh) dh = get<W>(p.dh + r * p.dh_stride, at, p.aligned);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        dw.add(at, i, g[i] * v[i] * rstd);
        const float d = rstd * fmaf(-v[i], slope, g[i] * weight[i]);
        dx.set(i, p.dh ? d + dh[i] : d);
      }
      put<W>(dx, p.dx + r * p.dx_stride, at, p.aligned);
    });
  }
  dw.write(p.columns);
}

template <class T, class Weight>
void run(Stream& stream, const RmsNormArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const Rows residual = a.residual ? as_rows(a.residual, a.kOp, "residual") : Rows{}, h = a.h ? as_rows(a.h, a.kOp, "h") : Rows{};
  const bool aligned = rows_aligned<T>({{&a.x, x.stride}, {&a.residual, residual.stride}, {&a.h, h.stride}, {&a.y, y.stride}}) &&
                       aligned16(data<Weight>(a.w));
  const Forward<T, Weight> p{data<T>(a.x),
                             data<T>(a.residual),
                             data<Weight>(a.w),
                             data<T>(a.h),
                             data<T>(a.y),
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
void run(Stream& stream, const RmsNormBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), h = as_rows(a.h, a.kOp, "h"), dx = as_rows(a.dx, a.kOp, "dx");
  const Rows dh = a.dh ? as_rows(a.dh, a.kOp, "dh") : Rows{};
  const bool aligned =
      rows_aligned<T>({{&a.dy, dy.stride}, {&a.dh, dh.stride}, {&a.h, h.stride}, {&a.dx, dx.stride}}) && aligned16(data<Weight>(a.w));
  const Launch launch(stream, a.kOp, {&a.dy, &a.w, &a.dx});
  with_walk<kPerVector<T>>(dy.columns, [&]<class W>() {
    const int64_t P = partial_rows(dy.rows, W::kThreads);
    const Scratch<float> partial(stream, P * dy.columns);
    const Backward<T, Weight> p{
        data<T>(a.dy), data<T>(a.dh), data<T>(a.h), data<Weight>(a.w), data<float>(a.rstd),   data<T>(a.dx), partial.data(), dy.rows, P,
        dy.stride,     dh.stride,     h.stride,     dx.stride,         columns_of(a.kOp, dy), aligned};
    launch(unsigned((P + Group<W::kThreads>::kPerBlock - 1) / Group<W::kThreads>::kPerBlock), Group<W::kThreads>::kBlockThreads,
           stream_bytes<W, 2>(), backward<T, Weight, W>, p);
    sum_partials(launch, partial.data(), P, dy.columns, data<float>(a.dw));
  });
}

template <class Args>
void by_dtype(Stream& stream, const Args& args, DType dtype) {
  dispatch_device<float, bf16>(dtype,
                               [&]<class T>() { args.w.dtype == DType::f32 ? run<T, float>(stream, args) : run<T, T>(stream, args); });
}

}  // namespace

void rms_norm(Stream& stream, const RmsNormArgs& args) { by_dtype(stream, args, args.x.dtype); }
void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) { by_dtype(stream, args, args.dy.dtype); }

}  // namespace weft::cuda
