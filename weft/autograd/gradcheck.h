// Gradients checked by finite differences. For a function y of some leaves, and fixed random weights r, the scalar
//
//   L = sum_i r_i y_i        (in float64, of the f32 values of y)
//
// is moved along a random direction d of one leaf at a time. Central differences at two steps h and h / 2,
//
//   D(h) = (L(x + h d) - L(x - h d)) / 2h,       numeric = (4 D(h / 2) - D(h)) / 3,
//
// err by h^4 and by the rounding of y; `analytic` is d . dL/dx from backward().
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "weft/tensor/named_tensor.h"

namespace weft {

struct GradcheckOptions {
  double step = 0.02;  // h, relative to the size of the leaf's values
  uint64_t seed = 1;
};

struct GradcheckResult {
  std::string name;
  double analytic, numeric;
  double scale;  // the root of the sum of squares of the terms of d . dL/dx: what an error is relative to

  double error() const;  // |analytic - numeric| / scale
};

// One result per leaf. A leaf is f32 and requires a gradient; its values are moved and restored. Gradients that the leaves held before are
// cleared.
std::vector<GradcheckResult> gradcheck(const std::function<Tensor()>& f, const std::vector<NamedTensor>& leaves,
                                       const GradcheckOptions& options = {});

}  // namespace weft
