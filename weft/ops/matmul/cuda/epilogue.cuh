// The steps after the sum of a matmul's element: one function for every kernel that sums.
#pragma once

#include "weft/tile/cuda/activation.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {

// A bias is f32 or has c's dtype.
template <class Out>
__device__ __forceinline__ float bias_at(const void* bias, bool wide, int64_t n) {
  return wide ? static_cast<const float*>(bias)[n] : to_float(static_cast<const Out*>(bias)[n]);
}

// pre = alpha sum + beta before (+ bias), c = f(pre); each step rounds once, in f32, and the stores round to Out.
template <class Out>
struct Finish {
  float alpha, beta;
  Activation activation;

  __device__ __forceinline__ void operator()(float sum, const void* bias, bool wide_bias, int64_t n, Out* c, Out* pre) const {
    float x = alpha * sum;
    if (beta != 0) x = fmaf(beta, to_float(*c), x);
    if (bias) x += bias_at<Out>(bias, wide_bias, n);
    if (pre) *pre = from_float<Out>(x);
    *c = from_float<Out>(activate(x, activation));
  }
};

}  // namespace weft::cuda
