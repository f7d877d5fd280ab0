#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/row_batches.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/layer_norm/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/row_chunks.h"
#include "weft/tile/cpu/widened.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: y = (h - mean) rstd w (+ b), mean = sum(h) / C, rstd = 1 / sqrt(sum((h - mean)^2) / C + eps), h = x (+ residual).
// Layout:   x, residual, h, y [R, C] with a row stride each, w, b [C], mean, rstd [R].
// Order:    rows are independent tasks; both sums over a row follow row_sum's fixed tree.
// Requires: unit stride within a row (the contract's). C = 0 gives mean 0, rstd = 1 / sqrt(eps) and no y.
// Traffic:  one read of each input from memory, the row's further reads from cache while the next rows are asked for; one
//           write of each output, past the caches when they do not hold it.
template <class T, bool kPastCaches, bool kBias>
void forward(Stream& stream, const LayerNormArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const Rows residual = a.residual ? as_rows(a.residual, a.kOp, "residual") : Rows{}, h = a.h ? as_rows(a.h, a.kOp, "h") : Rows{};
  const int64_t C = x.columns;
  const T* x_data = data<T>(a.x);
  T* y_data = data<T>(a.y);
  float *mean = data<float>(a.mean), *rstd = data<float>(a.rstd);
  const Widened weight(stream, a.w, C), bias(stream, a.b, C);
  const float *w = weight.data(), *b = bias.data();
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
        const float sum = row_sum(C, [&](At at) HWY_ATTR { return at.load(row); });
        mean[r] = C ? sum / float(C) : 0.0f;
        normalised[k] = row;
      }
      for (int64_t k = 0; k < rows; ++k) {
        const T* row = normalised[k];
        const F32x16 centre = splat(mean[start + k]);
        const float squares = row_accumulate(C, [=](F32x16 acc, At at) HWY_ATTR {
          const F32x16 v = at.load(row) - centre;
          return fma(v, v, acc);
        });
        rstd[start + k] = 1.0f / __builtin_sqrtf((C ? squares / float(C) : 0.0f) + a.eps);
      }
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t r = start + k, ahead = (std::min(r + rows, last - 1) - r) * x.stride;
        const T *row = normalised[k], *xr = x_data + r * x.stride;
        T* out = y_data + r * y.stride;
        const F32x16 centre = splat(mean[r]), scale = splat(rstd[r]);
        for_each_block(C, [=](At at) HWY_ATTR {
          at.prefetch(xr, ahead);
          const F32x16 z = (at.load(row) - centre) * scale;
          at.put(kBias ? fma(z, at.load(w), at.load(b)) : z * at.load(w), out, kPastCaches);
        });
      }
    });
    if (kPastCaches) hwy::FlushStream();
  });
}

// Equation: dx = rstd (g - s1 / C - z s2 / C) (+ dh), g = dy w, z = (h - mean) rstd, s1 = sum(g), s2 = sum(g z);
//           dw = sum over rows of dy z, db = sum over rows of dy.
// Layout:   dy, dh, h, dx [R, C] with a row stride each, w [C], mean, rstd [R], dw, db [C].
// Order:    rows fall into at most 64 chunks by R alone; a chunk adds its rows to dw and db in order, then the chunks
//           are added in order. s1 and s2 follow row_sum's fixed tree.
// Requires: unit stride within a row (the contract's). R = 0 gives dw = db = 0.
// Traffic:  one read of dy, dh and h from memory, their second read from cache; one write of dx, past the caches when
//           they do not hold it; chunks of dw, db.
template <class T, bool kPastCaches, bool kAdds, bool kBias>
void backward(Stream& stream, const LayerNormBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), h = as_rows(a.h, a.kOp, "h"), dx = as_rows(a.dx, a.kOp, "dx");
  const Rows dh = a.dh ? as_rows(a.dh, a.kOp, "dh") : Rows{};
  const int64_t R = dy.rows, C = dy.columns;
  const T *dy_data = data<T>(a.dy), *h_data = data<T>(a.h), *dh_data = data<T>(a.dh);
  T* dx_data = data<T>(a.dx);
  const float *mean = data<float>(a.mean), *rstd = data<float>(a.rstd);
  const Widened weight(stream, a.w, C);
  const float* w = weight.data();
  const RowChunks chunks(R);
  const Scratch<float> dw_chunks(stream, chunks.count * C), db_chunks(stream, kBias ? chunks.count * C : 0);
  parallel_for(chunks.count, threads(stream), [&](int64_t chunk) HWY_ATTR {
    float *dw = dw_chunks.data() + chunk * C, *db = kBias ? db_chunks.data() + chunk * C : nullptr;
    for_each_block(C, [=](At at) HWY_ATTR {
      at.store(zero(), dw);
      if (kBias) at.store(zero(), db);
    });
    const int64_t last = chunks.last(chunk);
    for_each_batch(chunks.first(chunk), last, C, [&](int64_t start, int64_t rows) HWY_ATTR {
      float s1[kBatchRows], s2[kBatchRows];
      for_each_pair(start, rows, [&](auto pair, int64_t r) HWY_ATTR {
        constexpr int N = decltype(pair)::value;
        const T *dyr[N], *hr[N], *dxr[N];
        F32x16 centre[N];
        for (int k = 0; k < N; ++k) {
          dyr[k] = dy_data + (r + k) * dy.stride, hr[k] = h_data + (r + k) * h.stride;
          dxr[k] = dx_data + (r + k) * dx.stride;
          centre[k] = splat(mean[r + k]);
        }
        const RowSums<2 * N> sums = row_accumulate_several<2 * N>(C, [=](RowSums<2 * N> acc, At at) HWY_ATTR {
          const F32x16 weight = at.load(w);
          for (int k = 0; k < N; ++k) {
            if (!kPastCaches) at.prefetch(dxr[k]);
            const F32x16 g = at.load(dyr[k]) * weight;
            acc.of[2 * k] = acc.of[2 * k] + g;
            acc.of[2 * k + 1] = fma(g, at.load(hr[k]) - centre[k], acc.of[2 * k + 1]);
          }
          return acc;
        });
        for (int k = 0; k < N; ++k) {
          s1[r - start + k] = sum(sums.of[2 * k]);
          s2[r - start + k] = sum(sums.of[2 * k + 1]) * rstd[r + k];
        }
      });
      for_each_pair(start, rows, [&](auto pair, int64_t r) HWY_ATTR {
        constexpr int N = decltype(pair)::value;
        const int64_t ahead = std::min(r + rows, last - N) - r, ahead_dy = ahead * dy.stride, ahead_h = ahead * h.stride;
        const T *dyr[N], *hr[N], *dhr[N];
        T* dxr[N];
        F32x16 centre[N], scale[N], minus_offset[N], slope[N];
        for (int k = 0; k < N; ++k) {
          dyr[k] = dy_data + (r + k) * dy.stride, hr[k] = h_data + (r + k) * h.stride;
          dhr[k] = kAdds ? dh_data + (r + k) * dh.stride : nullptr;
          dxr[k] = dx_data + (r + k) * dx.stride;
          centre[k] = splat(mean[r + k]), scale[k] = splat(rstd[r + k]);
          minus_offset[k] = splat(-s1[r - start + k] / float(C)), slope[k] = splat(s2[r - start + k] / float(C));
        }
        for_each_block(C, [=](At at) HWY_ATTR {
          const F32x16 weight = at.load(w);
          F32x16 dw_total = at.load(dw), db_total = kBias ? at.load(db) : zero();
          for (int k = 0; k < N; ++k) {
            at.prefetch(dyr[k], ahead_dy);
            at.prefetch(hr[k], ahead_h);
            const F32x16 g = at.load(dyr[k]), z = (at.load(hr[k]) - centre[k]) * scale[k];
            dw_total = fma(g, z, dw_total);
            db_total = db_total + g;
            F32x16 d = scale[k] * fnma(z, slope[k], fma(g, weight, minus_offset[k]));
            if (kAdds) d = d + at.load(dhr[k]);
            at.put(d, dxr[k], kPastCaches);
          }
          at.store(dw_total, dw);
          if (kBias) at.store(db_total, db);
        });
      });
    });
    if (kPastCaches) hwy::FlushStream();
  });
  sum_chunks(stream, dw_chunks.data(), chunks.count, C, data<float>(a.dw));
  if (a.db) sum_chunks(stream, db_chunks.data(), chunks.count, C, data<float>(a.db));
}

}  // namespace

void layer_norm(Stream& stream, const LayerNormArgs& args) {
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() {
    const int64_t bytes = 2 * args.x.numel() * int64_t(sizeof(T));
    with_constant(writes_past_caches(bytes, args.y, as_rows(args.y, args.kOp, "y").stride), [&](auto past_caches) {
      with_constant(bool(args.b), [&](auto bias) { forward<T, past_caches.value, bias.value>(stream, args); });
    });
  });
}

void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args) {
  dispatch<float, bf16>(args.dy.dtype, [&]<class T>() {
    const int64_t bytes = 3 * args.dy.numel() * int64_t(sizeof(T));
    with_constant(writes_past_caches(bytes, args.dx, as_rows(args.dx, args.kOp, "dx").stride), [&](auto past_caches) {
      with_constant(bool(args.dh), [&](auto adds) {
        with_constant(bool(args.db), [&](auto bias) { backward<T, past_caches.value, adds.value, bias.value>(stream, args); });
      });
    });
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(layer_norm, LayerNormArgs)
WEFT_CPU_KERNEL(layer_norm_backward, LayerNormBackwardArgs)
#endif
