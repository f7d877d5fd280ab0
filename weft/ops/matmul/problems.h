// Problems that spec.cpp makes matmul's cases from, with their references in float64.
#pragma once

#include "weft/ops/matmul/matmul.h"
#include "weft/spec/problem.h"
#include "weft/spec/registry.h"

namespace weft::spec::matmul_problems {

struct Size {
  int64_t M, N, K;
};

struct Setup {
  DType in = DType::f32, out = DType::f32;
  Size size;
  bool transpose_a = false, transpose_b = false;
  Shape batch = {};
  bool shared_b = false;
  float alpha = 1, beta = 0;
  bool bias = false, keep_pre = false;
  DType bias_dtype = DType::f32;
  Activation activation = Activation::none;
  Layout layout = Layout::contiguous;
  Fill a = normal();
  Precision precision = Precision::f32;
  bool column_sums = false;  // for times_slope

  int64_t matrices() const { return batch.numel(); }
  Shape shape(int64_t rows, int64_t columns, bool batched = true) const {
    Shape s = batched ? batch : Shape{};
    s.push_back(rows);
    s.push_back(columns);
    return s;
  }
  Shape a_shape() const { return transpose_a ? shape(size.K, size.M) : shape(size.M, size.K); }
  Shape b_shape() const { return transpose_b ? shape(size.N, size.K, !shared_b) : shape(size.K, size.N, !shared_b); }
  Shape c_shape() const { return shape(size.M, size.N); }
  int64_t a_at(int64_t g, int64_t m, int64_t k) const { return (g * size.M * size.K) + (transpose_a ? k * size.M + m : m * size.K + k); }
  int64_t b_at(int64_t g, int64_t n, int64_t k) const {
    return (shared_b ? 0 : g * size.K * size.N) + (transpose_b ? n * size.K + k : k * size.N + n);
  }
  int64_t c_at(int64_t g, int64_t m, int64_t n) const { return (g * size.M + m) * size.N + n; }
};

Problem forward(const Setup& s);

// c = op(a) op(b) f'(slope_of), and its column sums.
Problem times_slope(const Setup& s);

// The backward rule of the tensor-level function, as autograd would call it.
Problem gradients(const Setup& s);

// K in two calls with beta = 1: on the CPU the bits must be those of one call; for bf16 if the cut is at a multiple of 32.
Problem two_halves(const Setup& s, int64_t first);

// Adds the cases with an int8 b.
void add_int8_cases(Registry& registry);

}  // namespace weft::spec::matmul_problems
