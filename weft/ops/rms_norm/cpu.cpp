#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/row_batches.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/rms_norm/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/row_chunks.h"
#include "weft/tile/cpu/widened.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: y = h rstd w, rstd = 1 / sqrt(mean(h^2) + eps), h = x (+ residual).
// Layout:   x, residual, h, y [R, C] with a row stride each, w [C], rstd [R].
// Order:    rows are independent tasks; the sum over a row follows row_sum's fixed tree.
// Requires: unit stride within a row (the contract's). C = 0 gives rstd = 1 / sqrt(eps) and no y.
// Traffic:  one read of each input from memory, the row's second read from cache while the next rows are asked for; one
//           write of each output, past the caches when they do not hold it.
template <class T>
void forward(Stream& stream, const RmsNormArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const Rows residual = a.residual ? as_rows(a.residual, a.kOp, "residual") : Rows{}, h = a.h ? as_rows(a.h, a.kOp, "h") : Rows{};
  const int64_t C = x.columns;
  const Widened weight(stream, a.w, C);
  const float* w = weight.data();
  const bool past_caches = writes_past_caches(2 * x.rows * C * int64_t(sizeof(T)), a.y, y.stride);
  for_each_row_group(stream, x.rows, C, [&](int64_t first, int64_t last) HWY_ATTR {
    for_each_batch(first, last, C, [&](int64_t start, int64_t rows) HWY_ATTR {
      const T* normalised[kBatchRows];
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t r = start + k;
        const T* row = data<T>(a.x) + r * x.stride;
        if (a.residual) {
          const T *xr = row, *rr = data<T>(a.residual) + r * residual.stride;
          T* hr = data<T>(a.h) + r * h.stride;
          for_each_block(C, [=](At at) HWY_ATTR { at.store(at.load(xr) + at.load(rr), hr); });
          row = hr;  // the rounded h is what is normalised, so that the backward sees the same values
        }
        const float squares = row_accumulate(C, [&](F32x16 acc, At at) HWY_ATTR {
          const F32x16 v = at.load(row);
          return fma(v, v, acc);
        });
        const float mean = C ? squares / float(C) : 0.0f;
        data<float>(a.rstd)[r] = 1.0f / __builtin_sqrtf(mean + a.eps);
        normalised[k] = row;
      }
      for (int64_t k = 0; k < rows; ++k) {
        const T *row = normalised[k], *next = data<T>(a.x) + std::min(start + rows + k, last - 1) * x.stride;
        T* out = data<T>(a.y) + (start + k) * y.stride;
        const F32x16 scale = splat(data<float>(a.rstd)[start + k]);
        for_each_block(C, [=](At at) HWY_ATTR {
          at.prefetch(next);
          at.put(at.load(row) * scale * at.load(w), out, past_caches);
        });
      }
    });
    if (past_caches) hwy::FlushStream();
  });
}

// Equation: dx = rstd (dy w - h rstd^2 s / C) (+ dh), s = sum(dy w h); dw = sum over rows of dy h rstd.
// Layout:   dy, dh, h, dx [R, C] with a row stride each, w [C], rstd [R], dw [C].
// Order:    rows fall into at most 64 chunks by R alone; a chunk adds its rows to dw in order, then the chunks are
//           added in order. s follows row_sum's fixed tree.
// Requires: unit stride within a row (the contract's). R = 0 gives dw = 0.
// Traffic:  one read of dy, dh and h from memory, their second read from cache; one write of dx, past the caches when
//           they do not hold it; chunks of dw.
template <class T>
void backward(Stream& stream, const RmsNormBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), h = as_rows(a.h, a.kOp, "h"), dx = as_rows(a.dx, a.kOp, "dx");
  const Rows dh = a.dh ? as_rows(a.dh, a.kOp, "dh") : Rows{};
  const int64_t R = dy.rows, C = dy.columns;
  const Widened weight(stream, a.w, C);
  const float* w = weight.data();
  const RowChunks chunks(R);
  const Scratch<float> partial(stream, chunks.count * C);
  const bool past_caches = writes_past_caches(3 * R * C * int64_t(sizeof(T)), a.dx, dx.stride);
  parallel_for(chunks.count, threads(stream), [&](int64_t chunk) HWY_ATTR {
    float* dw = partial.data() + chunk * C;
    for_each_block(C, [=](At at) HWY_ATTR { at.store(zero(), dw); });
    const int64_t last = chunks.last(chunk);
    for_each_batch(chunks.first(chunk), last, C, [&](int64_t start, int64_t rows) HWY_ATTR {
      float s[kBatchRows];
      for (int64_t k = 0; k < rows; ++k) {
        const T *dyr = data<T>(a.dy) + (start + k) * dy.stride, *hr = data<T>(a.h) + (start + k) * h.stride;
        s[k] = row_accumulate(C, [&](F32x16 acc, At at) HWY_ATTR { return fma(at.load(dyr) * at.load(w), at.load(hr), acc); });
      }
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t r = start + k, next = std::min(r + rows, last - 1);
        const T *dyr = data<T>(a.dy) + r * dy.stride, *hr = data<T>(a.h) + r * h.stride;
        const T *next_dy = data<T>(a.dy) + next * dy.stride, *next_h = data<T>(a.h) + next * h.stride;
        const T* dhr = a.dh ? data<T>(a.dh) + r * dh.stride : nullptr;
        T* dxr = data<T>(a.dx) + r * dx.stride;
        const float rstd = data<float>(a.rstd)[r];
        const F32x16 scale = splat(rstd), slope = splat(s[k] * rstd * rstd / float(C));
        for_each_block(C, [=](At at) HWY_ATTR {
          if (past_caches) {
            at.prefetch(next_dy);
            at.prefetch(next_h);
          }
          const F32x16 g = at.load(dyr), v = at.load(hr);
          at.store(fma(g * v, scale, at.load(dw)), dw);
          F32x16 d = scale * fnma(v, slope, g * at.load(w));
          if (dhr) d = d + at.load(dhr);
          at.put(d, dxr, past_caches);
        });
      }
    });
    if (past_caches) hwy::FlushStream();
  });
  sum_chunks(stream, partial.data(), chunks.count, C, data<float>(a.dw));
}

}  // namespace

void rms_norm(Stream& stream, const RmsNormArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() { forward<T>(stream, args); });
}

void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) {
  dispatch<float, bf16>(args.dy.dtype, [&]<class T>() { backward<T>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(rms_norm, RmsNormArgs)
WEFT_CPU_KERNEL(rms_norm_backward, RmsNormBackwardArgs)
#endif
