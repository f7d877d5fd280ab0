// The float64 reference of causal attention and its bounds, for operands with any layout in memory. Shared by the specs of
// causal_attention and packed_attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "weft/spec/problem.h"
#include "weft/tile/cpu/bf16_dot.h"

namespace weft::spec::attention {

struct Size {
  int64_t B, T, H, Hkv, D;
};

// Offset of an operand's row (b, t, h) in the tensor that holds it.
struct Place {
  std::string tensor;
  int64_t T, heads, D;  // heads of that tensor
  int64_t offset = 0;   // of the operand's first head
  bool by_head = false;

  int64_t row(int64_t b, int64_t t, int64_t h) const {
    return by_head ? ((b * heads + h) * T + t) * D : ((b * T + t) * heads + offset + h) * D;
  }
  Tensor of(const Bound& bound, int64_t operand_heads) const {
    const Tensor& t = bound.tensor(tensor);
    return by_head ? t.permute({0, 2, 1, 3}) : t.part(2, offset, offset + operand_heads);
  }
};

struct Places {
  Place q, k, v;
};

inline double dot(const Array& a, int64_t i, const Array& b, int64_t j, int64_t n) {
  double total = 0;
  for (int64_t d = 0; d < n; ++d) total += a[i + d] * b[j + d];
  return total;
}
inline double magnitude(const Array& a, int64_t i, const Array& b, int64_t j, int64_t n) {
  double total = 0;
  for (int64_t d = 0; d < n; ++d) total += std::abs(a[i + d] * b[j + d]);
  return total;
}

// p and ds are rounded to bf16 before they are multiplied: on CUDA, and if the CPU multiplies pairs of bf16. Each errs by
// 2^-8 of itself then, so a sum of products with them by 2^-8 of the magnitudes it sums; lse has none of that.
inline bool rounds_on_cpu() { return cpu::bf16_dot() != cpu::Bf16Dot::none; }

inline const double u = unit_roundoff(DType::f32);
inline constexpr double kExp = 3;  // roundings that one exponential may err by

// The scores of one query: s_j, the sums of magnitudes behind each, and what follows from them.
struct Row {
  std::vector<double> s, size;
  double most = -INFINITY, least = INFINITY, total = 0, lse = 0;

  Row(const Truth& t, const Places& at, const Size& n, double scale, int64_t b, int64_t h, int64_t i, bool with_size) {
    const Array &q = t[at.q.tensor], &k = t[at.k.tensor];
    for (int64_t j = 0; j <= i; ++j) {
      const int64_t qi = at.q.row(b, i, h), kj = at.k.row(b, j, h / (n.H / n.Hkv));
      s.push_back(scale * dot(q, qi, k, kj, n.D));
      if (with_size) size.push_back(std::abs(scale) * magnitude(q, qi, k, kj, n.D));
      if (!(s.back() <= most)) most = s.back();
      if (!(s.back() >= least)) least = s.back();
    }
    for (double x : s) total += std::exp(x - most);
    lse = most + std::log(total);
  }

  // A score errs by D + 2 roundings (scaling q, the chain, the scale itself) of the magnitudes it sums; the
  // exponential turns that absolute error, and the rounding of its argument s - base, into a relative error of p.
  double p_error(size_t j, const Size& n, double base) const {
    return growth(double(n.D + 2)) * u * size[j] + u * std::abs(s[j] - base) + kExp * u;
  }
};

// p_ij is computed against the maximum of its time and scaled down as the maximum grows: over all steps the maximum
// moves by at most the row's span, and each step rounds an exponential and a product. So p errs by a relative e, the
// numerator and the denominator of o by e and the roundings of a sum of i + 1 terms each.
inline void expect_attention(Truth& t, const Places& at, const Place& out, const Size& n, double scale) {
  const Array& v = t[at.v.tensor];
  t["o"].narrow_on_cpu = rounds_on_cpu();
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t h = 0; h < n.H; ++h)
      for (int64_t i = 0; i < n.T; ++i) {
        const Row row(t, at, n, scale, b, h, i, true);
        const double steps = double(i) / 64 + 2, span = row.most - row.least;
        double e = 0;
        for (size_t j = 0; j < row.s.size(); ++j) e = std::max(e, row.p_error(j, n, row.most));
        e += u * span + (kExp + 1) * u * steps;
        const double sum_error = e + growth(double(i) + steps + 3) * u;
        const int64_t index = (b * n.H + h) * n.T + i;
        // log turns the relative error of the sum into an absolute one; then its own roundings and one sum.
        t["lse"].expect_within(index, row.lse, sum_error + 3 * u * (std::abs(row.most) + std::abs(row.lse) + std::log(row.total)));
        for (int64_t d = 0; d < n.D; ++d) {
          double o = 0, size = 0;
          for (int64_t j = 0; j <= i; ++j) {
            const double weighted = std::exp(row.s[size_t(j)] - row.most) / row.total * v[at.v.row(b, j, h / (n.H / n.Hkv)) + d];
            o += weighted;
            size += std::abs(weighted);
          }
          t["o"].expect_within(out.row(b, i, h) + d, o, 2 * sum_error * size);
          if (t["o"].dtype == DType::bf16) t["o"].allow_narrow(out.row(b, i, h) + d, size);  // p
        }
      }
}

// o and lse of the forward, into `o` and (when there) `lse`.
inline void attend(const Truth& t, const Places& at, const Place& out, const Size& n, double scale, Array& o, Array* lse) {
  const Array& v = t[at.v.tensor];
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t h = 0; h < n.H; ++h)
      for (int64_t i = 0; i < n.T; ++i) {
        const Row row(t, at, n, scale, b, h, i, false);
        if (lse) lse->v[size_t((b * n.H + h) * n.T + i)] = row.lse;
        double* oi = &o.v[size_t(out.row(b, i, h))];
        std::fill_n(oi, n.D, 0.0);
        for (int64_t j = 0; j <= i; ++j) {
          const double weight = std::exp(row.s[size_t(j)] - row.lse), *vj = &v.v[size_t(at.v.row(b, j, h / (n.H / n.Hkv)))];
          for (int64_t d = 0; d < n.D; ++d) oi[d] += weight * vj[d];
        }
      }
}

// Sums of gradients and of what their bounds are made of, for one output tensor.
struct Sums {
  std::vector<double> value, error, size;  // size: the magnitudes of the products with p and ds

  explicit Sums(const Array& like) : value(like.v.size(), 0), error(like.v.size(), 0), size(like.v.size(), 0) {}
  void add(int64_t i, double v, double e) {
    value[size_t(i)] += v;
    error[size_t(i)] += e;
    size[size_t(i)] += std::abs(v);
  }
  void expect(Array& array) const {
    array.narrow_on_cpu = rounds_on_cpu();
    for (int64_t i = 0; i < array.size(); ++i) {
      array.expect_within(i, value[size_t(i)], error[size_t(i)]);
      if (array.dtype == DType::bf16) array.allow_narrow(i, size[size_t(i)]);
    }
  }
};

// With e the relative error of p_ij = exp(s_ij - lse_i), G = sum |do v| and Delta = sum |o do|: do . v errs by D
// roundings of G, delta by fewer of Delta, so ds by p (G + Delta) (e + (D + 3) u). A gradient sums such terms, each
// times an element of k, q or do, in a chain of as many roundings as there are terms (and three for scale and product).
inline void differentiate(Truth& t, const Places& at, const Places& grad, const Place& out, const Size& n, double scale) {
  const Array &q = t[at.q.tensor], &k = t[at.k.tensor], &v = t[at.v.tensor], &o = t["o"], &dout = t["dout"];
  // packed: dq, dk and dv share a tensor; then so do the sums
  const bool shared = grad.q.tensor == grad.k.tensor;
  Sums first(t[grad.q.tensor]), second(t[grad.k.tensor]), third(t[grad.v.tensor]);
  Sums &dq = first, &dk = shared ? first : second, &dv = shared ? first : third;
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t h = 0; h < n.H; ++h)
      for (int64_t i = 0; i < n.T; ++i) {
        const Row row(t, at, n, scale, b, h, i, true);
        const int64_t group = n.H / n.Hkv, oi = out.row(b, i, h), qi = at.q.row(b, i, h);
        const double lse = t["lse"][(b * n.H + h) * n.T + i], delta = dot(o, oi, dout, oi, n.D),
                     delta_size = magnitude(o, oi, dout, oi, n.D);
        for (int64_t j = 0; j <= i; ++j) {
          const int64_t kj = at.k.row(b, j, h / group), vj = at.v.row(b, j, h / group);
          const double e = row.p_error(size_t(j), n, lse), p = std::exp(row.s[size_t(j)] - lse);
          const double ds = p * (dot(dout, oi, v, vj, n.D) - delta), size = p * (magnitude(dout, oi, v, vj, n.D) + delta_size);
          const double ds_error = size * (e + growth(double(n.D) + 3) * u);
          const double over_keys = growth(double(i) + 4) * u, over_queries = growth(double(group * (n.T - j)) + 3) * u;
          for (int64_t d = 0; d < n.D; ++d) {
            dq.add(grad.q.row(b, i, h) + d, scale * ds * k[kj + d], std::abs(scale * k[kj + d]) * (ds_error + size * over_keys));
            dk.add(grad.k.row(b, j, h / group) + d, scale * ds * q[qi + d], std::abs(scale * q[qi + d]) * (ds_error + size * over_queries));
            dv.add(grad.v.row(b, j, h / group) + d, p * dout[oi + d], std::abs(p * dout[oi + d]) * (e + over_queries));
          }
        }
      }
  dq.expect(t[grad.q.tensor]);
  if (shared) return;
  dk.expect(t[grad.k.tensor]);
  dv.expect(t[grad.v.tensor]);
}

}  // namespace weft::spec::attention
