// The kernels of rms_norm and layer_norm on the CPU (row_norm.h).

#if defined(WEFT_OPS_ROW_NORM_CPU_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_ROW_NORM_CPU_H_
#undef WEFT_OPS_ROW_NORM_CPU_H_
#else
#define WEFT_OPS_ROW_NORM_CPU_H_
#endif

#include "weft/ops/row_norm/row_norm.h"
#include "weft/tile/cpu/row_batches.h"
#include "weft/tile/cpu/row_chunks.h"
#include "weft/tile/cpu/widened.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Equation: y = (h - mean) rstd w (+ b), rstd = 1 / sqrt(mean((h - mean)^2) + eps), h = x (+ residual); mean = 0 unless centred.
// Layout:   x, residual, h, y [R, C] with a row stride each, w, b [C], mean, rstd [R].
// Order:    rows are independent tasks; every sum over a row follows row_sum's fixed tree.
// Requires: unit stride within a row (the contract's). C = 0 gives mean 0, rstd = 1 / sqrt(eps) and no y.
// Traffic:  one read of each input from memory, the row's further reads from cache while the next rows are prefetched; one write
//           of each output, by non-temporal stores when the caches do not hold it.
template <class T, bool kCentred, bool kBias, bool kNonTemporal>
void norm_forward(Stream& stream, const RowNormArgs& a) {
  constexpr const char* kOp = kRowNorm<kCentred>;
  const Rows x = as_rows(a.x, kOp, "x"), y = as_rows(a.y, kOp, "y");
  const Rows residual = a.residual ? as_rows(a.residual, kOp, "residual") : Rows{}, h = a.h ? as_rows(a.h, kOp, "h") : Rows{};
  const int64_t C = x.columns;
  const T* x_data = data<T>(a.x);
  T* y_data = data<T>(a.y);
  float *mean = kCentred ? data<float>(a.mean) : nullptr, *rstd = data<float>(a.rstd);
  const Widened weight(stream, a.w, C), bias(stream, a.b, C);
  const float *w = weight.data(), *b = bias.data();
  const auto reciprocal_root = [=](float squares) { return 1.0f / __builtin_sqrtf((C ? squares / float(C) : 0.0f) + a.eps); };
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
          row = hr;  // the rounded h is normalised, so that the backward sees the same values
        }
        if constexpr (kCentred) {
          const float sum = row_sum(C, [&](At at) HWY_ATTR { return at.load(row); });
          mean[r] = C ? sum / float(C) : 0.0f;
        } else {
          rstd[r] = reciprocal_root(row_accumulate(C, [&](F32x16 acc, At at) HWY_ATTR {
            const F32x16 v = at.load(row);
            return fma(v, v, acc);
          }));
        }
        normalised[k] = row;
      }
      if constexpr (kCentred)
        for (int64_t k = 0; k < rows; ++k) {
          const T* row = normalised[k];
          const F32x16 centre = splat(mean[start + k]);
          rstd[start + k] = reciprocal_root(row_accumulate(C, [=](F32x16 acc, At at) HWY_ATTR {
            const F32x16 v = at.load(row) - centre;
            return fma(v, v, acc);
          }));
        }
      for (int64_t k = 0; k < rows; ++k) {
        const int64_t r = start + k, ahead = (std::min(r + rows, last - 1) - r) * x.stride;
        const T *row = normalised[k], *xr = x_data + r * x.stride;
        T* out = y_data + r * y.stride;
        const F32x16 centre = splat(kCentred ? mean[r] : 0.0f), scale = splat(rstd[r]);
        for_each_block(C, [=](At at) HWY_ATTR {
          at.prefetch(xr, ahead);
          const F32x16 v = at.load(row), z = (kCentred ? v - centre : v) * scale;
          at.put(kBias ? fma(z, at.load(w), at.load(b)) : z * at.load(w), out, kNonTemporal);
        });
      }
    });
    if (kNonTemporal) hwy::FlushStream();
  });
}

// One batch of rows of the backward: norm_backward has the maths. sums() is not inlined: within the loops over rows, two of its
// pointers would be reloaded from the stack for every block. rms_norm's backward of 2048x384 in f32, AVX-512, one thread: 197 us so, 202
// with both steps inlined, 210 with gradients() a function, 221 with four rows in it.
template <class T, bool kCentred, bool kBias, bool kNonTemporal, bool kAdds>
struct NormBackwardRows {
  static constexpr int kSums = kCentred ? 2 : 1;  // of a row: s1 where it is centred, and s2
  Rows dy, h, dx, dh;
  const T *dy_data, *h_data, *dh_data;
  T* dx_data;
  const float *mean, *rstd, *w;
  int64_t C;
  float s1[kBatchRows], s2[kBatchRows];  // of the rows from `start` on

  // s1 and s2 rstd of rows r to r + N - 1. The lines of dx are prefetched for what follows.
  template <int N>
  HWY_NOINLINE void sums(int64_t start, int64_t r) {
    const T *dyr[N], *hr[N], *dxr[N];
    F32x16 centre[N];
    for (int k = 0; k < N; ++k) {
      dyr[k] = dy_data + (r + k) * dy.stride, hr[k] = h_data + (r + k) * h.stride;
      dxr[k] = dx_data + (r + k) * dx.stride;
      centre[k] = splat(kCentred ? mean[r + k] : 0.0f);
    }
    const auto sums = row_accumulate_several<kSums * N>(C, [=, w = w](RowSums<kSums * N> acc, At at) HWY_ATTR {
      const F32x16 weight = at.load(w);
      for (int k = 0; k < N; ++k) {
        if (!kNonTemporal) at.prefetch(dxr[k]);
        const F32x16 g = at.load(dyr[k]) * weight;
        if constexpr (kCentred) {  // the lambda captures centre only where it is used
          acc.of[2 * k] = acc.of[2 * k] + g;
          acc.of[2 * k + 1] = fma(g, at.load(hr[k]) - centre[k], acc.of[2 * k + 1]);
        } else {
          acc.of[k] = fma(g, at.load(hr[k]), acc.of[k]);
        }
      }
      return acc;
    });
    for (int k = 0; k < N; ++k) {
      if (kCentred) s1[r - start + k] = sum(sums.of[kSums * k]);
      s2[r - start + k] = sum(sums.of[kSums * k + kSums - 1]) * rstd[r + k];
    }
  }

  // dx of rows r to r + N - 1, and their part of dw and db; the rows `ahead` of them are prefetched.
  template <int N>
  HWY_INLINE void gradients(int64_t start, int64_t r, int64_t ahead, float* dw, float* db) const {
    const int64_t ahead_dy = ahead * dy.stride, ahead_h = ahead * h.stride;
    const T *dyr[N], *hr[N], *dhr[N];
    T* dxr[N];
    F32x16 centre[N], scale[N], minus_mean_g[N], projection[N];
    for (int k = 0; k < N; ++k) {
      dyr[k] = dy_data + (r + k) * dy.stride, hr[k] = h_data + (r + k) * h.stride;
      dhr[k] = kAdds ? dh_data + (r + k) * dh.stride : nullptr;
      dxr[k] = dx_data + (r + k) * dx.stride;
      const float s = s2[r - start + k], root = rstd[r + k];
      centre[k] = splat(kCentred ? mean[r + k] : 0.0f), scale[k] = splat(root);
      minus_mean_g[k] = splat(kCentred ? -s1[r - start + k] / float(C) : 0.0f);
      projection[k] = splat(kCentred ? s / float(C) : s * root / float(C));
    }
    for_each_block(C, [=, w = w](At at) HWY_ATTR {
      const F32x16 weight = at.load(w);
      F32x16 dw_total = at.load(dw), db_total;
      if constexpr (kBias) db_total = at.load(db);
      for (int k = 0; k < N; ++k) {
        at.prefetch(dyr[k], ahead_dy);
        at.prefetch(hr[k], ahead_h);
        const F32x16 g = at.load(dyr[k]), v = at.load(hr[k]);
        F32x16 d;
        if constexpr (kCentred) {
          const F32x16 z = (v - centre[k]) * scale[k];
          dw_total = fma(g, z, dw_total);
          d = scale[k] * fnma(z, projection[k], fma(g, weight, minus_mean_g[k]));
        } else {
          dw_total = fma(g * v, scale[k], dw_total);
          d = scale[k] * fnma(v, projection[k], g * weight);
        }
        if constexpr (kBias) db_total = db_total + g;
        if constexpr (kAdds) d = d + at.load(dhr[k]);
        at.put(d, dxr[k], kNonTemporal);
      }
      at.store(dw_total, dw);
      if constexpr (kBias) at.store(db_total, db);
    });
  }
};

// Equation: dx = rstd (g - s1 / C - z s2 / C) (+ dh), g = dy w, z = (h - mean) rstd, s1 = sum(g), s2 = sum(g z);
//           dw = sum over rows of dy z, db = sum over rows of dy. Not centred: no mean, no s1, and dx = rstd (g - h p),
//           p = sum(g h) rstd^2 / C.
// Layout:   dy, dh, h, dx [R, C] with a row stride each, w [C], mean, rstd [R], dw, db [C].
// Order:    rows fall into at most 64 chunks by R alone; a chunk adds its rows to dw and db in order, then the chunks
//           are added in order. s1 and s2 follow row_sum's fixed tree.
// Requires: unit stride within a row (the contract's). R = 0 gives dw = db = 0.
// Traffic:  one read of dy, dh and h from memory, their second read from cache; one write of dx, by non-temporal stores when
//           the caches do not hold it; chunks of dw, db.
template <class T, bool kCentred, bool kBias, bool kNonTemporal, bool kAdds>
void norm_backward(Stream& stream, const RowNormBackwardArgs& a) {
  constexpr const char* kOp = kRowNormBackward<kCentred>;
  const Rows dy = as_rows(a.dy, kOp, "dy"), h = as_rows(a.h, kOp, "h"), dx = as_rows(a.dx, kOp, "dx");
  const Rows dh = a.dh ? as_rows(a.dh, kOp, "dh") : Rows{};
  const int64_t R = dy.rows, C = dy.columns;
  const Widened weight(stream, a.w, C);
  const RowChunks chunks(R);
  const Scratch<float> dw_chunks(stream, chunks.count * C), db_chunks(stream, kBias ? chunks.count * C : 0);
  parallel_for(chunks.count, threads(stream), [&](int64_t chunk) HWY_ATTR {
    float *dw = dw_chunks.data() + chunk * C, *db = kBias ? db_chunks.data() + chunk * C : nullptr;
    for_each_block(C, [=](At at) HWY_ATTR {
      at.store(zero(), dw);
      if (kBias) at.store(zero(), db);
    });
    NormBackwardRows<T, kCentred, kBias, kNonTemporal, kAdds> batch{.dy = dy,
                                                                    .h = h,
                                                                    .dx = dx,
                                                                    .dh = dh,
                                                                    .dy_data = data<T>(a.dy),
                                                                    .h_data = data<T>(a.h),
                                                                    .dh_data = data<T>(a.dh),
                                                                    .dx_data = data<T>(a.dx),
                                                                    .mean = kCentred ? data<float>(a.mean) : nullptr,
                                                                    .rstd = data<float>(a.rstd),
                                                                    .w = weight.data(),
                                                                    .C = C,
                                                                    .s1 = {},
                                                                    .s2 = {}};
    const int64_t last = chunks.last(chunk);
    for_each_batch(chunks.first(chunk), last, C, [&](int64_t start, int64_t rows) HWY_ATTR {
      for_each_pair(start, rows, [&](auto pair, int64_t r) HWY_ATTR { batch.template sums<decltype(pair)::value>(start, r); });
      for_each_pair(start, rows, [&](auto pair, int64_t r) HWY_ATTR {
        constexpr int N = decltype(pair)::value;
        batch.template gradients<N>(start, r, std::min(r + rows, last - N) - r, dw, db);
      });
    });
    if (kNonTemporal) hwy::FlushStream();
  });
  sum_chunks(stream, dw_chunks.data(), chunks.count, C, data<float>(a.dw));
  if (kBias) sum_chunks(stream, db_chunks.data(), chunks.count, C, data<float>(a.db));
}

// body(flag) with the flag as a constant; only a centred norm has a bias.
template <bool kCentred, class F>
void with_bias(bool bias, F body) {
  if constexpr (kCentred)
    with_constant(bias, body);
  else
    body(std::false_type());
}

template <bool kCentred>
void norm_rows(Stream& stream, const RowNormArgs& a) {
  dispatch<float, bf16>(a.x.dtype, [&]<class T>() {
    const int64_t bytes = 2 * a.x.numel() * int64_t(sizeof(T));
    with_constant(stores_non_temporally(bytes, a.y, as_rows(a.y, kRowNorm<kCentred>, "y").stride), [&](auto non_temporal) {
      with_bias<kCentred>(bool(a.b), [&](auto bias) { norm_forward<T, kCentred, bias.value, non_temporal.value>(stream, a); });
    });
  });
}

template <bool kCentred>
void norm_rows_backward(Stream& stream, const RowNormBackwardArgs& a) {
  dispatch<float, bf16>(a.dy.dtype, [&]<class T>() {
    const int64_t bytes = 3 * a.dy.numel() * int64_t(sizeof(T));
    with_constant(stores_non_temporally(bytes, a.dx, as_rows(a.dx, kRowNormBackward<kCentred>, "dx").stride), [&](auto non_temporal) {
      with_constant(bool(a.dh), [&](auto adds) {
        with_bias<kCentred>(bool(a.db),
                            [&](auto bias) { norm_backward<T, kCentred, bias.value, non_temporal.value, adds.value>(stream, a); });
      });
    });
  });
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
