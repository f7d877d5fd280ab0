// The float64 reference of causal attention and its bounds, for operands with any layout in memory. Shared by the specs of
// causal_attention and packed_attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
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

// The numbers of a problem: scale, and the options of the op.
struct Rule {
  double scale;
  int64_t window = 0;
  double soft_cap = 0;
  std::vector<int64_t> documents = {};  // cumulative lengths; empty: one document

  // The document of token i: its first token and the first one after it.
  std::pair<int64_t, int64_t> document(int64_t i, int64_t T) const {
    for (size_t d = 1; d < documents.size(); ++d)
      if (i < documents[d]) return {documents[d - 1], documents[d]};
    return {0, T};
  }
  int64_t first_key(int64_t i, int64_t T) const { return std::max(document(i, T).first, window > 0 ? i - window + 1 : 0); }
  // Queries that attend to key j.
  int64_t queries(int64_t j, int64_t T) const {
    const int64_t left = document(j, T).second - j;
    return window > 0 ? std::min(left, window) : left;
  }
};

// The scores of one query, of keys from `first` on: s_j and how much each may err; the soft cap's derivative; and what follows from them.
struct Row {
  int64_t first;
  std::vector<double> s, error, slope, slope_error;
  double most = -INFINITY, least = INFINITY, total = 0, lse = 0;

  Row(const Truth& t, const Places& at, const Size& n, const Rule& rule, int64_t b, int64_t h, int64_t i, bool with_error)
      : first(rule.first_key(i, n.T)) {
    const Array &q = t[at.q.tensor], &k = t[at.k.tensor];
    for (int64_t j = first; j <= i; ++j) {
      const int64_t qi = at.q.row(b, i, h), kj = at.k.row(b, j, h / (n.H / n.Hkv));
      const double size = with_error ? std::abs(rule.scale) * magnitude(q, qi, k, kj, n.D) : 0;
      add(rule, rule.scale * dot(q, qi, k, kj, n.D), growth(double(n.D + 2)) * u * size);
      if (!(s.back() <= most)) most = s.back();
      if (!(s.back() >= least)) least = s.back();
    }
    for (double x : s) total += std::exp(x - most);
    lse = most + std::log(total);
  }
  int64_t count() const { return int64_t(s.size()); }

  // A score errs by D + 2 roundings (scaling q, the chain, the scale itself) of the magnitudes it sums. With c = tanh(x / cap): the
  // argument's two roundings count less in c, as x' (1 - tanh^2 x') <= tanh x'; tanh errs by 2 ulp, at most 4 u; then the product with
  // cap: 7 in all. And 1 - c^2 errs by 2 |c| times the error of c, and one rounding.
  void add(const Rule& rule, double x, double x_error) {
    const double c = rule.soft_cap > 0 ? std::tanh(x / rule.soft_cap) : 0, derivative = 1 - c * c;
    const double c_error = rule.soft_cap > 0 ? derivative * x_error / rule.soft_cap + 6 * u * std::abs(c) : 0;
    s.push_back(rule.soft_cap > 0 ? rule.soft_cap * c : x);
    error.push_back(rule.soft_cap > 0 ? rule.soft_cap * c_error + u * std::abs(rule.soft_cap * c) : x_error);
    slope.push_back(derivative);
    slope_error.push_back(rule.soft_cap > 0 ? 2 * std::abs(c) * c_error + u : 0);
  }

  // The exponential turns the absolute error of s, and the rounding of its argument s - base, into a relative error of p.
  double p_error(size_t j, double base) const { return error[j] + u * std::abs(s[j] - base) + kExp * u; }
};

// p_ij is computed against the maximum of its time and scaled down as the maximum grows: over all steps the maximum
// moves by at most the row's span, and each step rounds an exponential and a product. So p errs by a relative e, the
// numerator and the denominator of o by e and the roundings of a sum of as many terms as there are keys. A window's keys may begin and
// end within a tile: one step more.
inline void expect_attention(Truth& t, const Places& at, const Place& out, const Size& n, const Rule& rule) {
  const Array& v = t[at.v.tensor];
  t["o"].narrow_on_cpu = rounds_on_cpu();
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t h = 0; h < n.H; ++h)
      for (int64_t i = 0; i < n.T; ++i) {
        const Row row(t, at, n, rule, b, h, i, true);
        const double before = double(row.count() - 1), steps = before / 64 + (rule.window > 0 ? 3 : 2), span = row.most - row.least;
        double e = 0;
        for (size_t j = 0; j < row.s.size(); ++j) e = std::max(e, row.p_error(j, row.most));
        e += u * span + (kExp + 1) * u * steps;
        const double sum_error = e + growth(before + steps + 3) * u;
        const int64_t index = (b * n.H + h) * n.T + i;
        // log turns the relative error of the sum into an absolute one; then its own roundings and one sum.
        t["lse"].expect_within(index, row.lse, sum_error + 3 * u * (std::abs(row.most) + std::abs(row.lse) + std::log(row.total)));
        for (int64_t d = 0; d < n.D; ++d) {
          double o = 0, size = 0;
          for (int64_t j = row.first; j <= i; ++j) {
            const double weighted =
                std::exp(row.s[size_t(j - row.first)] - row.most) / row.total * v[at.v.row(b, j, h / (n.H / n.Hkv)) + d];
            o += weighted;
            size += std::abs(weighted);
          }
          t["o"].expect_within(out.row(b, i, h) + d, o, 2 * sum_error * size);
          if (t["o"].dtype == DType::bf16) t["o"].allow_narrow(out.row(b, i, h) + d, size);  // p
        }
      }
}

// o and lse of the forward, into `o` and (when there) `lse`.
inline void attend(const Truth& t, const Places& at, const Place& out, const Size& n, const Rule& rule, Array& o, Array* lse) {
  const Array& v = t[at.v.tensor];
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t h = 0; h < n.H; ++h)
      for (int64_t i = 0; i < n.T; ++i) {
        const Row row(t, at, n, rule, b, h, i, false);
        if (lse) lse->v[size_t((b * n.H + h) * n.T + i)] = row.lse;
        double* oi = &o.v[size_t(out.row(b, i, h))];
        std::fill_n(oi, n.D, 0.0);
        for (int64_t j = row.first; j <= i; ++j) {
          const double weight = std::exp(row.s[size_t(j - row.first)] - row.lse), *vj = &v.v[size_t(at.v.row(b, j, h / (n.H / n.Hkv)))];
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
// times an element of k, q or do, in a chain of as many roundings as there are terms (and three for scale and product). A soft cap
// multiplies ds by its derivative: one rounding more, and the error of that derivative.
inline void differentiate(Truth& t, const Places& at, const Places& grad, const Place& out, const Size& n, const Rule& rule) {
  const double scale = rule.scale;
  const Array &q = t[at.q.tensor], &k = t[at.k.tensor], &v = t[at.v.tensor], &o = t["o"], &dout = t["dout"];
  // packed: dq, dk and dv share a tensor; then so do the sums
  const bool shared = grad.q.tensor == grad.k.tensor;
  Sums first(t[grad.q.tensor]), second(t[grad.k.tensor]), third(t[grad.v.tensor]);
  Sums &dq = first, &dk = shared ? first : second, &dv = shared ? first : third;
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t h = 0; h < n.H; ++h)
      for (int64_t i = 0; i < n.T; ++i) {
        const Row row(t, at, n, rule, b, h, i, true);
        const int64_t group = n.H / n.Hkv, oi = out.row(b, i, h), qi = at.q.row(b, i, h);
        const double lse = t["lse"][(b * n.H + h) * n.T + i], delta = dot(o, oi, dout, oi, n.D),
                     delta_size = magnitude(o, oi, dout, oi, n.D);
        for (int64_t j = row.first; j <= i; ++j) {
          const size_t at_j = size_t(j - row.first);
          const int64_t kj = at.k.row(b, j, h / group), vj = at.v.row(b, j, h / group);
          const double e = row.p_error(at_j, lse), p = std::exp(row.s[at_j] - lse), slope = row.slope[at_j];
          const double centred = p * (dot(dout, oi, v, vj, n.D) - delta), centred_size = p * (magnitude(dout, oi, v, vj, n.D) + delta_size);
          const double ds = centred * slope, size = centred_size * slope;
          const double ds_error = size * (e + growth(double(n.D) + 3 + (rule.soft_cap > 0)) * u) +
                                  (rule.soft_cap > 0 ? centred_size * row.slope_error[at_j] : 0);
          const double over_keys = growth(double(i - row.first) + 4) * u,
                       over_queries = growth(double(group * rule.queries(j, n.T)) + 3) * u;
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
