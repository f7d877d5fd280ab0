#include "weft/ops/reduce/reduce.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/reduce/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/row_chunks.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// A reduction: the term of an element, how two terms combine, and the identity to start from.
template <Reduction K>
struct Kind {
  static constexpr float kIdentity = K == Reduction::max ? -HUGE_VALF : 0.0f;
  static HWY_INLINE F32x16 term(F32x16 v) { return K == Reduction::sum_squares ? v * v : v; }
  static HWY_INLINE F32x16 combine(F32x16 a, F32x16 b) {
    if constexpr (K == Reduction::max)
      return max(a, b);
    else
      return a + b;
  }
  template <class Term>
  static HWY_INLINE float over_row(int64_t n, Term term) {
    if constexpr (K == Reduction::max)
      return row_max(n, term);
    else
      return row_sum(n, term);
  }
};

// Equation: y[o] = sum_i term(x[o, i]).
// Layout:   x [outer, n] with a stride between rows, y [outer].
// Order:    segments of 65536 elements are independent tasks; a segment follows row_sum's fixed tree, and so do the
//           results of a row's segments.
// Requires: unit stride within a row (the contract's). n = 0 gives the identity.
// Traffic:  one read of x, one write of y; one float per segment.
template <Reduction K, class T, class Y>
void along_rows(Stream& stream, const ReduceArgs& a, const ReduceSpan& s) {
  constexpr int64_t kSegment = 65536;
  const int64_t segments = std::max<int64_t>(1, ceil_div(s.n, kSegment));
  const T* x = data<T>(a.x);
  const Scratch<float> partial(stream, s.outer * segments);
  for_each_row_group(stream, s.outer * segments, std::min(s.n, kSegment), [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t task = first; task < last; ++task) {
      const int64_t start = task % segments * kSegment;
      const T* row = x + task / segments * s.outer_stride + start;
      partial.data()[task] =
          Kind<K>::over_row(std::min(s.n - start, kSegment), [&](At at) HWY_ATTR { return Kind<K>::term(at.load(row)); });
    }
  });
  for_each_row_group(stream, s.outer, segments, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t o = first; o < last; ++o) {
      const float* row = partial.data() + o * segments;
      // A single segment is taken as it is: folding it again would add zeros, which turn -0 into 0.
      data<Y>(a.y)[o] = Y(segments == 1 ? row[0] : Kind<K>::over_row(segments, [&](At at) HWY_ATTR { return at.load(row); }));
    }
  });
}

// partial[j] = combine over rows [first, last) of x[i, j], in order. Four rows at a time: a quarter of partial's traffic.
template <Reduction K, class T>
void rows_into(const T* x, int64_t stride, int64_t first, int64_t last, int64_t inner, float* partial) {
  for_each_block(inner, [&](At at) HWY_ATTR { at.store(splat(Kind<K>::kIdentity), partial); });
  for (int64_t i = first; i < last; i += 4) {
    const int64_t rows = std::min<int64_t>(4, last - i);
    const T* row = x + i * stride;
    for_each_block(inner, [&](At at) HWY_ATTR {
      F32x16 total = at.load(partial);
      for (int64_t k = 0; k < rows; ++k) total = Kind<K>::combine(total, Kind<K>::term(at.load(row + k * stride)));
      at.store(total, partial);
    });
  }
}

// Equation: y[o, j] = sum_i term(x[o, i, j]).
// Layout:   x [outer, n, inner] with strides for outer and n, y [outer, inner].
// Order:    the n rows fall into at most 64 chunks by n alone; a chunk adds its rows in order, then the chunks are added
//           in order, lane by lane.
// Requires: unit stride in inner (the contract's). n = 0 gives the identity.
// Traffic:  one read of x, one write of y; one partial row of f32 per chunk (at most 1/16 of x's elements) twice.
template <Reduction K, class T, class Y>
void across_rows(Stream& stream, const ReduceArgs& a, const ReduceSpan& s) {
  const RowChunks chunks(s.n);
  const Scratch<float> partial(stream, s.outer * chunks.count * s.inner);
  for_each_row_group(stream, s.outer * chunks.count, chunks.size * s.inner, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t task = first; task < last; ++task) {
      const int64_t o = task / chunks.count, chunk = task % chunks.count;
      rows_into<K>(data<T>(a.x) + o * s.outer_stride, s.stride, chunks.first(chunk), chunks.last(chunk), s.inner,
                   partial.data() + task * s.inner);
    }
  });
  constexpr int64_t kColumns = 1024;  // of a task: 4 KiB of each partial row, 256 KiB of 64 chunks
  const int64_t tiles = ceil_div(s.inner, kColumns);
  for_each_row_group(stream, s.outer * tiles, chunks.count * std::min(s.inner, kColumns), [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t task = first; task < last; ++task) {
      const int64_t o = task / tiles, column = task % tiles * kColumns;
      const float* from = partial.data() + o * chunks.count * s.inner + column;
      Y* y = data<Y>(a.y) + o * s.inner + column;
      for_each_block(std::min(kColumns, s.inner - column), [&](At at) HWY_ATTR {
        F32x16 total = splat(Kind<K>::kIdentity);
        for (int64_t chunk = 0; chunk < chunks.count; ++chunk) total = Kind<K>::combine(total, at.load(from + chunk * s.inner));
        at.store(total, y);
      });
    }
  });
}

// Lanes where x is the maximum m: equal, or both NaN.
HWY_INLINE Mask16 is_maximum(F32x16 x, F32x16 m) {
  Mask16 r;
  for (int i = 0; i < kParts; ++i) r.part[i] = hn::Or(hn::Eq(x.part[i], m.part[i]), hn::And(hn::IsNaN(x.part[i]), hn::IsNaN(m.part[i])));
  return r;
}

// The gradient of one maximum along a row: dy to the first element that equals it.
template <class T>
void max_row_backward(const T* x, float maximum, float dy, int64_t n, T* dx) {
  for_each_block(n, [&](At at) HWY_ATTR { at.store(zero(), dx); });
  for (int64_t i = 0; i < n; ++i) {
    const float v = float(x[i]);
    if (v == maximum || (v != v && maximum != maximum)) {
      dx[i] = T(dy);
      return;
    }
  }
}

// Equation: dx[o, i, j] = dy[o, j] (sum), 2 x[o, i, j] dy[o, j] (sum_squares).
// Layout:   x, dx [outer, n, inner] with strides for outer and n each, dy [outer, inner].
// Order:    elementwise: runs of unit stride, cut into pieces, are independent tasks.
// Requires: unit stride in inner, or along n when inner = 1 (the contract's). n = 0 writes nothing.
// Traffic:  one read of dy (and of x for sum_squares), one write of dx.
template <class T, class G>
void spread(Stream& stream, const ReduceBackwardArgs& a) {
  const bool squares = a.kind == Reduction::sum_squares;
  const ReduceSpan to = reduce_span(a.dx, a.axis, a.kOp, "dx"), from = squares ? reduce_span(a.x, a.axis, a.kOp, "x") : to;
  const bool rows = to.inner == 1;  // one dy for a whole row
  const int64_t runs = rows ? 1 : to.n, length = rows ? to.n : to.inner;
  for_each_row_piece(stream, to.outer * runs, length, [&](int64_t run, int64_t first, int64_t count) HWY_ATTR {
    const int64_t o = run / runs, i = run % runs;
    T* dx = data<T>(a.dx) + o * to.outer_stride + i * to.stride + first;
    const T* x = squares ? data<T>(a.x) + o * from.outer_stride + i * from.stride + first : nullptr;
    const G* dy = data<G>(a.dy) + o * to.inner + (rows ? 0 : first);
    const F32x16 row_dy = splat(float(*dy));
    for_each_block(count, [&](At at) HWY_ATTR {
      F32x16 g = rows ? row_dy : at.load(dy);
      if (squares) {
        const F32x16 v = at.load(x);
        g = (v + v) * g;
      }
      at.store(g, dx);
    });
  });
}

// Equation: dx[o, i, j] = dy[o, j] where i is the first with x[o, i, j] = y[o, j], else 0.
// Layout:   x, dx [outer, n, inner] with strides for outer and n each, y, dy [outer, inner].
// Order:    outer parts are independent tasks; each walks i in order, a block of columns at a time.
// Requires: unit stride in inner, or along n when inner = 1 (the contract's). n = 0 writes nothing.
// Traffic:  one read of x, y and dy, one write of dx.
template <class T, class G, class Y>
void to_first_maximum(Stream& stream, const ReduceBackwardArgs& a) {
  const ReduceSpan to = reduce_span(a.dx, a.axis, a.kOp, "dx"), from = reduce_span(a.x, a.axis, a.kOp, "x");
  const int64_t n = to.n, inner = to.inner;
  for_each_row_group(stream, to.outer, n * inner, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t o = first; o < last; ++o) {
      T* dx = data<T>(a.dx) + o * to.outer_stride;
      const T* x = data<T>(a.x) + o * from.outer_stride;
      const G* dy = data<G>(a.dy) + o * inner;
      const Y* y = data<Y>(a.y) + o * inner;
      if (inner == 1) {
        max_row_backward(x, float(*y), float(*dy), n, dx);
        continue;
      }
      for_each_block(inner, [&](At at) HWY_ATTR {
        F32x16 left = at.load(dy);  // becomes zero once given away
        const F32x16 maximum = at.load(y);
        for (int64_t i = 0; i < n; ++i) {
          const Mask16 hit = is_maximum(at.load(x + i * from.stride), maximum);
          at.store(select(hit, left, zero()), dx + i * to.stride);
          left = select(hit, zero(), left);
        }
      });
    }
  });
}

template <Reduction K>
void forward(Stream& stream, const ReduceArgs& args) {
  const ReduceSpan span = reduce_span(args.x, args.axis, args.kOp, "x");
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() {
    const auto run = [&]<class Y>() {
      span.inner == 1 ? along_rows<K, T, Y>(stream, args, span) : across_rows<K, T, Y>(stream, args, span);
    };
    args.y.dtype == DType::f32 ? run.template operator()<float>() : run.template operator()<T>();
  });
}

}  // namespace

void reduce(Stream& stream, const ReduceArgs& args) {
  switch (args.kind) {
    case Reduction::sum: return forward<Reduction::sum>(stream, args);
    case Reduction::sum_squares: return forward<Reduction::sum_squares>(stream, args);
    case Reduction::max: return forward<Reduction::max>(stream, args);
  }
}

void reduce_backward(Stream& stream, const ReduceBackwardArgs& args) {
  dispatch<float, bf16>(args.dx.dtype, [&]<class T>() {
    const auto run = [&]<class G>() {
      if (args.kind != Reduction::max) return spread<T, G>(stream, args);
      args.y.dtype == DType::f32 ? to_first_maximum<T, G, float>(stream, args) : to_first_maximum<T, G, T>(stream, args);
    };
    args.dy.dtype == DType::f32 ? run.template operator()<float>() : run.template operator()<T>();
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(reduce, ReduceArgs)
WEFT_CPU_KERNEL(reduce_backward, ReduceBackwardArgs)
#endif
