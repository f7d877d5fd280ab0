// Matmul, batched, with an epilogue:
//
//   pre = alpha op(A) op(B) + beta C + bias          C = f(pre)
//
//   dA = dC op(B)^T    dB = op(A)^T dC    dbias = sum over rows of dC     (dC after f's own backward)
//
// or, in the backward pass of an activation f with input x = slope_of, where column_sums is the gradient of the bias of the layer before f:
//
//   C = op(A) op(B) f'(x)      column_sums = sum over rows of C
//
// op(X) is X or its transpose; f is an activation. a and b are both f32, or both bf16; c is f32, or bf16 where they are.
// Sums are f32 and are rounded to c's dtype once, at the end; f sees the unrounded value.
//
// Order of accumulation, the same for every blocking, thread count and instruction set: with alpha = 1 an element starts
// at beta C and takes one fma for each k = 0 .. K-1 in turn, so a matmul over K may be cut into calls with beta = 1
// and keep its bits (f32 c). With alpha != 1 the chain starts at 0, and fma(alpha, sum, beta C) ends it.
// One exception, for bf16 if the CPU multiplies pairs of them: k in pairs, the odd one first (weft/tile/cpu/bf16_dot.h), or in
// blocks of 32, even and odd k apart (weft/tile/cpu/amx.h). Then a cut keeps the bits where it is at a multiple of 32.
// beta = 0 does not read C. K = 0 gives f(beta C + bias).
//
// An int8 B (stored as u8) has one scale per row and kInt8Group elements of K. Its weights are b[n, k] scales[n, k / kInt8Group], exact in
// f32, rounded to a's dtype; the result has the bits of the matmul with these weights.
#pragma once

#include <optional>

#include "weft/ops/elementwise/kind.h"
#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

inline constexpr int64_t kInt8Group = 32;

// The precision of f32 operands. f32: all bits. tf32 allows a device with TF32 matrix units to keep 10 of the 23 bits of fraction; other
// devices compute in f32, which is within the same bound.
enum class Precision : uint8_t { f32, tf32 };

struct MatmulArgs {
  static constexpr const char* kOp = "matmul";
  static constexpr int64_t kSkinnyRows = 4;  // rows of c, of all matrices if b is shared, else of one: bound by reading b

  View a;       // [..., M, K], or [..., K, M] when transposed; up to two batch axes
  View b;       // [..., K, N], or [..., N, K]; the batch axes of a, or none: shared by all
  MutView c;    // [..., M, N]
  View bias;    // [N], f32 or c's dtype; absent: none
  MutView pre;  // as c: the value before the activation, for its backward; absent: not kept
  // The gradient of `activation`: x, with c's shape and dtype, and optionally the column sums [N], f32. Requires any_order, and one
  // matrix or a batch that shares b and whose matrices are stacked. On CUDA the f32 sum is multiplied by f'(x); on other devices the sum is
  // first rounded to c's dtype.
  View slope_of = {};
  MutView column_sums = {};
  bool transpose_a = false, transpose_b = false;
  float alpha = 1, beta = 0;
  Activation activation = Activation::none;
  Precision precision = Precision::f32;  // tf32: a and b must be f32
  // For gradients: the device may sum over K in any order that depends on the shape alone. Else a row of c has one set of bits for
  // any number of rows (docs/numerics.md).
  bool any_order = false;
  // Scales of an int8 b [N, K]: f16 [N, ceil(K / kInt8Group)]. Requires transpose_b, alpha 1, beta 0, no transpose_a and no pre. Absent: b
  // has a's dtype.
  View scales = {};

  // The shapes depend on the transposes and on whether b is shared: plan() checks them.
  static constexpr auto operands() {
    using namespace operand;
    using A = MatmulArgs;
    return std::array{in("a", &A::a, "", kFloats).columns(),
                      in("b", &A::b, "", like("a", DType::u8)).columns(),
                      out("c", &A::c, "", like("a", DType::f32)).columns(),
                      in("bias", &A::bias, "", like("c", DType::f32)).columns().optional(),
                      out("pre", &A::pre, "", like("c")).columns().optional(),
                      in("slope_of", &A::slope_of, "", like("c")).columns().optional(),
                      out("column_sums", &A::column_sums, "", DType::f32).optional(),
                      in("scales", &A::scales, "", DType::f16).columns().optional()};
  }
};

// Extents of a launch's operands, and strides in elements. Rows are unit-stride.
struct MatmulPlan {
  struct Matrix {
    int64_t row = 0;               // from one row to the next, as stored
    int64_t outer = 0, inner = 0;  // from one matrix to the next along the two batch axes
  };
  int64_t M, N, K;
  int64_t outer = 1, inner = 1;  // extents of the batch axes
  bool shared_b = false;
  Matrix a, b, c, pre, slope_of;

  int64_t batch() const { return outer * inner; }
  int64_t offset(const Matrix& m, int64_t index) const { return index / inner * m.outer + index % inner * m.inner; }
};

// Checks the operands against each other and returns the sizes and strides that every backend uses.
MatmulPlan plan(const MatmulArgs& args);

// Throws, with the operand's name, if an operand breaks the contract. Every launch calls it first.
void check_contract(const Stream& stream, const MatmulArgs& args);

// A checked launch into memory the caller owns. c must not overlap a or b.
void matmul(Stream& stream, const MatmulArgs& args);
Cost cost(const MatmulArgs& args);

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;
  Tensor bias = {};
  Activation activation = Activation::none;
  std::optional<DType> out_dtype = {};   // a's when not given
  Precision precision = Precision::f32;  // of the product and of those of its gradient
  Tensor scales = {};                    // of an int8 b; then without gradient
};

// The gradient of a leaf is f32 (it is accumulated), any other has the dtype of its value.
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

}  // namespace weft
