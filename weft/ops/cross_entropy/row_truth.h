// The cross entropy of one row in float64 and its bounds: what the specs of cross_entropy and linear_cross_entropy share.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "weft/spec/truth.h"

namespace weft::spec::entropy {

inline constexpr double u = 0x1p-24;  // f32's unit roundoff

// A sum of n terms is a chain of n / 64 additions per lane, then six levels of tree.
inline double chain(int64_t n) { return double(n) / 64 + 8; }

// One row in float64: its loss, its probabilities, and the errors they may have.
struct RowTruth {
  double loss = 0, loss_error = 0;
  double max = 0, log_sum = 0, log_sum_error = 0;
  std::vector<double> p, share;  // share: of exp(x - m) / s, relative
};

// With d = x - m: the difference errs by u |d|, which is the relative error it gives exp, and exp adds 3 u of its own.
// The sum s runs over tiles of 1024; when the maximum grows it is scaled by exp(old - new), erring by u |old - new|
// (all of which add up to part of |d|), 3 u and a product, at most once a tile. So with T tiles
//   s errs relatively by the mean of u (|d_j| + 3) under p, plus a tile's additions, T more and 4 (T - 1).
// log s moves by s's relative error and adds 4 u of itself; m - x_t errs by u |m - x_t|, the last sum by u |loss|.
// The probability takes s's error, exp's, and three roundings (1 / count, its division by s, the product). With several
// tiles exp(d) is exp(x - the tile's maximum) exp(that - m): another 3 u and a product; the differences add up to d.
inline RowTruth row_truth(std::span<const double> x, int64_t target) {
  const int64_t V = int64_t(x.size());
  RowTruth t{.p = std::vector<double>(x.size()), .share = std::vector<double>(x.size())};
  double m = -INFINITY, s = 0;
  for (int64_t j = 0; j < V; ++j) m = std::isnan(x[size_t(j)]) || std::isnan(m) ? NAN : std::max(m, x[size_t(j)]);
  for (int64_t j = 0; j < V; ++j) s += std::exp(x[size_t(j)] - m);
  const double tiles = std::ceil(double(V) / 1024);
  double s_error = u * growth(chain(std::min<int64_t>(V, 1024)) + tiles + 4 * (tiles - 1));
  for (int64_t j = 0; j < V; ++j) {
    const double d = x[size_t(j)] - m;
    t.p[size_t(j)] = std::exp(d) / s;
    t.share[size_t(j)] = t.p[size_t(j)] == 0 ? 0 : u * (std::abs(d) + 3);
    s_error += t.p[size_t(j)] * t.share[size_t(j)];
  }
  for (double& share : t.share) share += s_error + (tiles > 1 ? 7 : 3) * u;
  t.max = m;
  t.log_sum = std::log(s);
  t.log_sum_error = s_error + 4 * u * t.log_sum;
  t.loss = m - x[size_t(target)] + std::log(s);
  t.loss_error = u * std::abs(m - x[size_t(target)]) + t.log_sum_error + u * std::abs(t.loss);
  return t;
}

}  // namespace weft::spec::entropy
