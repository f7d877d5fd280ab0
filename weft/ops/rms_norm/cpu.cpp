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
template <class T, bool kPastCaches>
void forward(Stream& stream, const RmsNormArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const Rows residual = a.residual ? as_rows(a.residual, a.kOp, "residual") : Rows{}, h = a.h ? as_rows(a.h, a.kOp, "h") : Rows{};
  const int64_t C = x.columns;
  const T* x_data = data<T>(a.x);
  T* y_data = data<T>(a.y);
  float* rstd = data<float>(a.rstd);
  const Widened weight(stream, a.w, C);
  const float* w = weight.data();
  for_each_row_group(stream, x.rows, C, [&](int64_t first, int64_t last) HWY_ATTR {
    for_each_batch(first, last, C, [&](int64_t start, int64_t rows) HWY_ATTR {
      const T* normalised[kBatchRows];
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t r = start + k;
        const T* row = x_data + r * x.stride;
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
        rstd[r] = 1.0f / __builtin_sqrtf(mean + a.eps);
        normalised[k] = row;
      }
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t r = start + k, ahead = (std::min(r + rows, last - 1) - r) * x.stride;
        const T *row = normalised[k], *xr = x_data + r * x.stride;
        T* out = y_data + r * y.stride;
        const F32x16 scale = splat(rstd[r]);
        for_each_block(C, [=](At at) HWY_ATTR {
          at.prefetch(xr, ahead);
          at.put(at.load(row) * scale * at.load(w), out, kPastCaches);
        });
      }
    });
    if (kPastCaches) hwy::FlushStream();
  });
}

// Equation: dx = rstd (dy w - h rstd^2 s / C) (+ dh), s = sum(dy w h); dw = sum over rows of dy h rstd.
// Layout:   dy, dh, h, dx [R, C] with a row stride each, w [C], rstd [R], dw [C].
// Order:    rows fall into at most 64 chunks by R alone; a chunk adds its rows to dw in order, then the chunks are
//           added in order. s follows row_sum's fixed tree.
// Requires: unit stride within a row (the contract's). R = 0 gives dw = 0.
// Traffic:  one read of dy, dh and h from memory, their second read from cache; one write of dx, past the caches when
//           they do not hold it; chunks of dw.
template <class T, bool kPastCaches, bool kAdds>
void backward(Stream& stream, const RmsNormBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), h = as_rows(a.h, a.kOp, "h"), dx = as_rows(a.dx, a.kOp, "dx");
  const Rows dh = a.dh ? as_rows(a.dh, a.kOp, "dh") : Rows{};
  const int64_t R = dy.rows, C = dy.columns;
  const T *dy_data = data<T>(a.dy), *h_data = data<T>(a.h), *dh_data = data<T>(a.dh);
  T* dx_data = data<T>(a.dx);
  const float* rstd = data<float>(a.rstd);
  const Widened weight(stream, a.w, C);
  const float* w = weight.data();
  const RowChunks chunks(R);
  const Scratch<float> partial(stream, chunks.count * C);
  parallel_for(chunks.count, threads(stream), [&](int64_t chunk) HWY_ATTR {
    float* dw = partial.data() + chunk * C;
    for_each_block(C, [=](At at) HWY_ATTR { at.store(zero(), dw); });
    const int64_t last = chunks.last(chunk);
    for_each_batch(chunks.first(chunk), last, C, [&](int64_t start, int64_t rows) HWY_ATTR {
      float s[kBatchRows];
      for_each_pair(start, rows, [&](auto pair, int64_t r) HWY_ATTR {
        constexpr int N = decltype(pair)::value;
        const T *dyr[N], *hr[N], *dxr[N];
        for (int k = 0; k < N; ++k) {
          dyr[k] = dy_data + (r + k) * dy.stride, hr[k] = h_data + (r + k) * h.stride;
          dxr[k] = dx_data + (r + k) * dx.stride;
        }
        const RowSums<N> sums = row_accumulate_several<N>(C, [=](RowSums<N> acc, At at) HWY_ATTR {
          const F32x16 weight = at.load(w);
          for (int k = 0; k < N; ++k) {
            if (!kPastCaches) at.prefetch(dxr[k]);
            acc.of[k] = fma(at.load(dyr[k]) * weight, at.load(hr[k]), acc.of[k]);
          }
          return acc;
        });
        for (int k = 0; k < N; ++k) s[r - start + k] = sum(sums.of[k]);
      });
      for_each_pair(start, rows, [&](auto pair, int64_t r) HWY_ATTR {
        constexpr int N = decltype(pair)::value;
        const int64_t ahead = std::min(r + rows, last - N) - r, ahead_dy = ahead * dy.stride, ahead_h = ahead * h.stride;
        const T *dyr[N], *hr[N], *dhr[N];
        T* dxr[N];
        F32x16 scale[N], slope[N];
        for (int k = 0; k < N; ++k) {
          dyr[k] = dy_data + (r + k) * dy.stride, hr[k] = h_data + (r + k) * h.stride;
          dhr[k] = kAdds ? dh_data + (r + k) * dh.stride : nullptr;
          dxr[k] = dx_data + (r + k) * dx.stride;
          const float root = rstd[r + k];
          scale[k] = splat(root), slope[k] = splat(s[r - start + k] * root * root / float(C));
        }
        for_each_block(C, [=](At at) HWY_ATTR {
          const F32x16 weight = at.load(w);
          F32x16 total = at.load(dw);
          for (int k = 0; k < N; ++k) {
            at.prefetch(dyr[k], ahead_dy);
            at.prefetch(hr[k], ahead_h);
            const F32x16 g = at.load(dyr[k]), v = at.load(hr[k]);
            total = fma(g * v, scale[k], total);
            F32x16 d = scale[k] * fnma(v, slope[k], g * weight);
            if (kAdds) d = d + at.load(dhr[k]);
            at.put(d, dxr[k], kPastCaches);
          }
          at.store(total, dw);
        });
      });
    });
    if (kPastCaches) hwy::FlushStream();
  });
  sum_chunks(stream, partial.data(), chunks.count, C, data<float>(a.dw));
}

}  // namespace

void rms_norm(Stream& stream, const RmsNormArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() {
    const int64_t bytes = 2 * args.x.numel() * int64_t(sizeof(T));
    with_constant(writes_past_caches(bytes, args.y, as_rows(args.y, args.kOp, "y").stride),
                  [&](auto past_caches) { forward<T, past_caches.value>(stream, args); });
  });
}

void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) {
  dispatch<float, bf16>(args.dy.dtype, [&]<class T>() {
    const int64_t bytes = 3 * args.dy.numel() * int64_t(sizeof(T));
    with_constant(writes_past_caches(bytes, args.dx, as_rows(args.dx, args.kOp, "dx").stride), [&](auto past_caches) {
      with_constant(bool(args.dh), [&](auto adds) { backward<T, past_caches.value, adds.value>(stream, args); });
    });
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(rms_norm, RmsNormArgs)
WEFT_CPU_KERNEL(rms_norm_backward, RmsNormBackwardArgs)
#endif
