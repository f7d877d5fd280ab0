// The numbers of adamw's Metal kernels: one struct for the host and MSL.
#pragma once

#ifndef __METAL_VERSION__
#include <cstdint>
#endif

namespace weft {

// Each beta in two floats, and 1 - beta, rounded once from double.
struct AdamwParams {
  float beta1, beta1_low, rest1, beta2, beta2_low, rest2, eps;
  int32_t unused;
};
static_assert(sizeof(AdamwParams) == 32, "host and MSL agree");

// Coefficients of all elements, in device memory.
struct AdamwCoefficients {
  float beta1, rest1, beta2, rest2;
  float step_size;  // lr / (1 - b1^t)
  float spread;     // 1 / sqrt(1 - b2^t)
  float eps, grad_scale, lr;
  int32_t bad_step;
};
static_assert(sizeof(AdamwCoefficients) == 40, "host and MSL agree");

struct AdamwTensorParams {
  int64_t count;
  float weight_decay;
  int32_t aligned;
};
static_assert(sizeof(AdamwTensorParams) == 16, "host and MSL agree");

}  // namespace weft
