// Whether a result of cuBLASLt has the bits of the order that docs/numerics.md defines ("One order: CUDA"): compared with plain kernels
// in that order, on tiles of 16 x 8 elements spread over the result, the first and the last among them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "weft/base/dtype.h"

namespace weft::cuda {

// D = alpha X op(W) + beta C (+ bias along N), with row strides; C has D's.
struct OrderedProduct {
  DType in, out;
  bool transpose_b;
  int M, N, K;
  int64_t x_row, w_row, d_row;
  const void *x, *w, *bias, *c;
  DType bias_dtype;
  float alpha, beta;
};

// Counts the elements of `d` whose bits differ into *different, on the device; NaNs are equal to each other.
void count_differences(cudaStream_t stream, const OrderedProduct& product, const void* d, int* different);

// Fills `count` elements with numbers of either sign and several magnitudes, times 2^power.
void fill_test_values(cudaStream_t stream, void* to, DType dtype, int64_t count, uint32_t seed, int power = 0);

// Fills an operand of a product over K whose exact result is 0: the second half of K repeats the first, in W with the other sign. What is
// left is the rounding of the sums, so that another order shows even where a result is rounded to bf16.
struct CancellingOperand {
  DType dtype;
  int64_t rows, columns, row;  // as stored; row: from one to the next
  bool k_is_column, negated;
};
void fill_cancelling(cudaStream_t stream, void* to, const CancellingOperand& operand, uint32_t seed);

}  // namespace weft::cuda
