// The float64 truth of activations, for the specs of ops that apply one.
#pragma once

#include "weft/ops/activation/kind.h"

namespace weft::spec {

struct ActivationTruth {
  double y, slope;              // f(x), f'(x)
  double y_error, slope_error;  // what a kernel's may be off by for the same x: absolute, before rounding to its dtype
};
ActivationTruth activation_truth(Activation kind, double x);

}  // namespace weft::spec
