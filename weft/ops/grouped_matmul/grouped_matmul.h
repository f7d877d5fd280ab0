// Grouped GEMM for a mixture of experts: each run of rows is multiplied by its expert's matrix. No row is padded or dropped.
//
//   c[i] = a[i] op(b[e]) + bias[e]              for the rows i of expert e: starts[e] <= i < starts[e + 1]
//
//   grouped_matmul_weights:  c[e] (+)= sum over the rows i of expert e of a[i]^T b[i]
//   grouped_sums:            y[e] = sum over the rows i of expert e of x[i]
//
// Gradients of grouped_matmul: da is a grouped_matmul with the other op(b), db is grouped_matmul_weights, dbias is grouped_sums. `starts`
// comes from expert_order and is read by the device only. Each row has the bits of `matmul` with its expert's matrix (weft/ops/matmul has
// the order and the dtypes), for any number of rows. Sums over rows are ascending. The matrix of an expert without rows is not read, and
// its gradient is 0.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct GroupedMatmulArgs {
  static constexpr const char* kOp = "grouped_matmul";
  View a;       // [P, K]
  View b;       // [E, K, N], or [E, N, K] when transposed
  View starts;  // [E + 1], ascending from 0 to P, else the stream raises a fault
  View bias;    // [E, N], optional
  MutView c;    // [P, N]
  bool transpose_b;

  static constexpr auto operands() {
    using namespace operand;
    using A = GroupedMatmulArgs;
    return std::array{in("a", &A::a, "P K", kFloats).rows(), in("b", &A::b, "E X Y", like("a")).uncounted(),
                      in("starts", &A::starts, "S", DType::i32), in("bias", &A::bias, "E N", like("a", DType::f32)).optional().uncounted(),
                      out("c", &A::c, "P N", like("a")).rows()};
  }
};

struct GroupedMatmulWeightsArgs {
  static constexpr const char* kOp = "grouped_matmul_weights";
  View a, b, starts;  // [P, M]; [P, N]; [E + 1]
  MutView c;          // [E, M, N]
  bool accumulate;    // c += instead of =

  static constexpr auto operands() {
    using namespace operand;
    using A = GroupedMatmulWeightsArgs;
    return std::array{in("a", &A::a, "P M", kFloats).rows(), in("b", &A::b, "P N", like("a")).rows(),
                      in("starts", &A::starts, "S", DType::i32), out("c", &A::c, "E M N", DType::f32)};
  }
};

struct GroupedSumsArgs {
  static constexpr const char* kOp = "grouped_sums";
  View x, starts;  // [P, N]; [E + 1]
  MutView y;       // [E, N]

  static constexpr auto operands() {
    using namespace operand;
    using A = GroupedSumsArgs;
    return std::array{in("x", &A::x, "P N", kFloats).rows(), in("starts", &A::starts, "S", DType::i32), out("y", &A::y, "E N", DType::f32)};
  }
};

void grouped_matmul(Stream& stream, const GroupedMatmulArgs& args);
void grouped_matmul_weights(Stream& stream, const GroupedMatmulWeightsArgs& args);
void grouped_sums(Stream& stream, const GroupedSumsArgs& args);
// Counts at most one matrix read per row.
Cost cost(const GroupedMatmulArgs& args);
inline Cost cost(const GroupedMatmulWeightsArgs& a) {
  return {operand_bytes(a) + (a.accumulate ? bytes_of(a.c) : 0), 2.0 * double(a.a.numel()) * double(a.b.shape[1])};
}
inline Cost cost(const GroupedSumsArgs& a) { return {operand_bytes(a), double(a.x.numel())}; }

// Differentiable in a, b and bias (undefined: none); the gradients of b and bias are f32.
Tensor grouped_matmul(const Tensor& a, const Tensor& b, const Tensor& starts, bool transpose_b, const Tensor& bias = {});

}  // namespace weft
