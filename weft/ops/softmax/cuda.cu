#include "weft/ops/softmax/softmax.h"
#include "weft/tile/cuda/math.cuh"
#include "weft/tile/cuda/rows.cuh"

namespace weft::cuda {
namespace {

template <class T>
struct Forward {
  const T* x;
  T* y;
  int64_t rows, x_stride, y_stride;
  int columns;
  bool aligned;
  float scale;
};

// Equation: y = e / sum(e), e = exp(scale x - m), m = max(scale x); zeros where m = -infinity.
// Layout:   x, y [R, C] with a row stride each.
// Order:    a group of threads per row; maximum and sum by thread over its chunks, then over the group (group.cuh).
// Requires: unit stride within a row (the contract's); y may be x. Unaligned rows go element by element.
// Traffic:  one read of x, one write of y; rows longer than a block holds are read again.
template <class T, class W>
__global__ void __launch_bounds__(Group<W::kThreads>::kBlockThreads) forward(const Forward<T> p) {
  using G = Group<W::kThreads>;
  extern __shared__ __align__(16) unsigned char shared[];
  G group;
  auto in = stream_rows<T, W, 1>(
      shared, [&](int, int64_t r) { return p.x + r * p.x_stride; }, G::index(), G::count(), p.rows, p.columns, p.aligned);
  for (; in.has_row(); in.advance()) {
    const int64_t r = in.row();
    in.arrive();
    float largest = Max::kNone;
    W::each(p.columns, [&](auto at) {
      const auto piece = in.piece(0, at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i)
        if (at.has(i)) largest = fmaxf(largest, piece[i] * p.scale);  // a NaN is met again in the sum
    });
    const float top = group.reduce(largest, [](float a, float b) { return fmaxf(a, b); }), m = top == Max::kNone ? 0.0f : top;
    float sum = 0, kept[W::kHeld ? W::kChunks * W::kWidth : 1];  // e in registers where rows are, else computed twice
    W::each(p.columns, [&](auto at) {
      const auto piece = in.piece(0, at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        const float e = at.has(i) ? exp_of_difference<T>(piece[i] * p.scale, m) : 0.0f;
        if constexpr (W::kHeld) kept[at.slot * W::kWidth + i] = e;
        sum += e;
      }
    });
    const float total = group.sum(sum), over_sum = total == 0 ? 0.0f : 1.0f / total;  // 0: everything is masked
    W::each(p.columns, [&](auto at) {
      auto piece = in.piece(0, at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) {
        float e;
        if constexpr (W::kHeld)
          e = kept[at.slot * W::kWidth + i];
        else
          e = exp_of_difference<T>(piece[i] * p.scale, m);
        piece.set(i, e * over_sum);
      }
      put<W>(piece, p.y + r * p.y_stride, at, p.aligned);
    });
  }
}

template <class T>
struct Backward {
  const T *y, *dy;
  T* dx;
  int64_t rows, y_stride, dy_stride, dx_stride;
  int columns;
  bool aligned;
  float scale;
};

// Equation: dx = scale y (dy - s), s = sum(y dy).
// Layout:   y, dy, dx [R, C] with a row stride each.
// Order:    as the forward.
// Requires: as the forward; dx may be dy or y.
// Traffic:  one read of y and dy, one write of dx.
template <class T, class W>
__global__ void __launch_bounds__(Group<W::kThreads>::kBlockThreads) backward(const Backward<T> p) {
  using G = Group<W::kThreads>;
  extern __shared__ __align__(16) unsigned char shared[];
  G group;
  auto in = stream_rows<T, W, 2>(
      shared, [&](int operand, int64_t r) { return operand == 0 ? p.y + r * p.y_stride : p.dy + r * p.dy_stride; }, G::index(), G::count(),
      p.rows, p.columns, p.aligned);
  for (; in.has_row(); in.advance()) {
    const int64_t r = in.row();
    in.arrive();
    float sum = 0;
    W::each(p.columns, [&](auto at) {
      const auto a = in.piece(0, at), b = in.piece(1, at);
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) sum = fmaf(a[i], b[i], sum);
    });
    const float s = group.sum(sum);
    W::each(p.columns, [&](auto at) {
      const auto a = in.piece(0, at), b = in.piece(1, at);
      Chunk<T, W::kWidth> dx;
#pragma unroll
      for (int i = 0; i < W::kWidth; ++i) dx.set(i, p.scale * a[i] * (b[i] - s));
      put<W>(dx, p.dx + r * p.dx_stride, at, p.aligned);
    });
  }
}

template <class T>
void run(Stream& stream, const SoftmaxArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const Forward<T> p{
      data<T>(a.x), data<T>(a.y), x.rows, x.stride, y.stride, columns_of(a.kOp, x), rows_aligned<T>({{&a.x, x.stride}, {&a.y, y.stride}}),
      a.scale};
  const Launch launch(stream, a.kOp, {&a.x});
  with_whole_walk<kPerVector<T>>(x.columns, p.aligned, [&]<class W>() {
    launch(row_blocks<W, 1>(stream, x.columns ? x.rows : 0), Group<W::kThreads>::kBlockThreads, stream_bytes<W, 1>(), forward<T, W>, p);
  });
}

template <class T>
void run(Stream& stream, const SoftmaxBackwardArgs& a) {
  const Rows y = as_rows(a.y, a.kOp, "y"), dy = as_rows(a.dy, a.kOp, "dy"), dx = as_rows(a.dx, a.kOp, "dx");
  const Backward<T> p{data<T>(a.y),
                      data<T>(a.dy),
                      data<T>(a.dx),
                      y.rows,
                      y.stride,
                      dy.stride,
                      dx.stride,
                      columns_of(a.kOp, y),
                      rows_aligned<T>({{&a.y, y.stride}, {&a.dy, dy.stride}, {&a.dx, dx.stride}}),
                      a.scale};
  const Launch launch(stream, a.kOp, {&a.y});
  with_whole_walk<kPerVector<T>>(y.columns, p.aligned, [&]<class W>() {
    launch(row_blocks<W, 2>(stream, y.columns ? y.rows : 0), Group<W::kThreads>::kBlockThreads, stream_bytes<W, 2>(), backward<T, W>, p);
  });
}

}  // namespace

void softmax(Stream& stream, const SoftmaxArgs& args) {
  dispatch_device<float, bf16>(args.x.dtype, [&]<class T>() { run<T>(stream, args); });
}
void softmax_backward(Stream& stream, const SoftmaxBackwardArgs& args) {
  dispatch_device<float, bf16>(args.y.dtype, [&]<class T>() { run<T>(stream, args); });
}

}  // namespace weft::cuda
