// Reduction of one axis, x seen as [outer, n, inner] with n the axis:
//
//   sum:          y = sum_i x_i         dx_i = dy
//   sum_squares:  y = sum_i x_i^2       dx_i = 2 x_i dy
//   max:          y = max_i x_i         dx_i = dy at the first i with x_i = y, else 0
//
// A NaN makes its sum and its maximum NaN; the gradient of a NaN maximum goes to the first NaN. An empty axis gives
// sum 0 and maximum -infinity. x is f32 or bf16; y is f32 or x's dtype; accumulation is in f32.
//
// Order of addition, by n alone. inner = 1: segments of 65536 elements, each in row_sum's fixed tree, and the segments'
// sums in that tree again. inner > 1: i in order within at most 64 chunks, then the chunks in order.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

enum class Reduction { sum, sum_squares, max };

struct ReduceArgs {
  static constexpr const char* kOp = "reduce";
  View x;     // any rank from 1; axes before `axis` must collapse to one stride, axes after it be contiguous
  MutView y;  // x's shape without the axis
  int axis;   // -1 is the last
  Reduction kind;

  static constexpr auto operands() {
    using namespace operand;
    using A = ReduceArgs;
    return std::array{in("x", &A::x, "", kFloats).strided(), out("y", &A::y, "", like("x", DType::f32))};
  }
};

struct ReduceBackwardArgs {
  static constexpr const char* kOp = "reduce_backward";
  View x;      // dx's shape; absent exactly for a sum
  View y;      // dy's shape: the maximum; present exactly for max
  View dy;     // dx's shape without the axis
  MutView dx;  // laid out as ReduceArgs::x may be
  int axis;
  Reduction kind;

  static constexpr auto operands() {
    using namespace operand;
    using A = ReduceBackwardArgs;
    return std::array{in("x", &A::x, "", like("dx")).strided().optional(), in("y", &A::y, "", like("dx", DType::f32)).optional(),
                      in("dy", &A::dy, "", like("dx", DType::f32)), out("dx", &A::dx, "", kFloats).strided()};
  }
};

// A view as [outer, n, inner]: element (o, i, j) lies at o * outer_stride + i * stride + j. inner = 1 has stride 1.
struct ReduceSpan {
  int64_t outer = 1, n = 0, inner = 1;
  int64_t outer_stride = 0, stride = 1;
};
// Throws, naming op and operand, when the view has no such form.
ReduceSpan reduce_span(const View& view, int axis, const char* op, const char* operand);

// Checked launches into memory the caller owns.
void reduce(Stream& stream, const ReduceArgs& args);
void reduce_backward(Stream& stream, const ReduceBackwardArgs& args);
inline Cost cost(const ReduceArgs& a) { return {operand_bytes(a), (a.kind == Reduction::sum_squares ? 2.0 : 1.0) * double(a.x.numel())}; }
inline Cost cost(const ReduceBackwardArgs& a) { return {operand_bytes(a), (a.kind == Reduction::sum ? 0.0 : 2.0) * double(a.dx.numel())}; }

// x's shape without `axis` (negative axes count from the end). The result is f32 whatever x is: a sum of many bf16
// values is a statistic, and rounding it back would lose the accumulator's precision.
Tensor reduce_sum(const Tensor& x, int axis);
Tensor reduce_sum_squares(const Tensor& x, int axis);
Tensor reduce_max(const Tensor& x, int axis);

// The sum of all elements, as a device scalar.
Tensor sum_all(const Tensor& x);

}  // namespace weft
