// Gather and scatter between tokens [T, C] and their rows sorted by expert [P, C], P = T k (rows and places of expert_order):
//
//   expert_rows:  y[i] = w[p] x[floor(p / k)],  p = rows[i]                     tokens to rows
//   expert_sum:   y[t] = sum over j of w[t, j] x[places[t, j]]                  rows to tokens, j ascending
//   expert_dots:  d[t, j] = sum over c of dy[t, c] x[places[t, j], c]
//
// Without w all weights are 1. Gradients: of expert_rows without w, dx = expert_sum(dy); of expert_sum,
//   dx = expert_rows(dy, w),  dw = expert_dots(dy, x).
// `route` returns a token's experts in ascending order, so sums over j are in the order of experts. Sums are f32 from 0, one fma per term,
// and rounded once.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct ExpertRowsArgs {
  static constexpr const char* kOp = "expert_rows";
  View x, rows, weights;  // [T, C]; [P], each in [0, P); [T, k], optional
  MutView y;              // [P, C]

  static constexpr auto operands() {
    using namespace operand;
    using A = ExpertRowsArgs;
    return std::array{in("x", &A::x, "T C", kFloats).rows(), in("rows", &A::rows, "P", DType::i32),
                      in("weights", &A::weights, "T K", DType::f32).optional(), out("y", &A::y, "P C", like("x")).rows()};
  }
};

struct ExpertSumArgs {
  static constexpr const char* kOp = "expert_sum";
  View x, places, weights;  // [P, C]; [T, k], each in [0, P); [T, k], optional
  MutView y;                // [T, C]

  static constexpr auto operands() {
    using namespace operand;
    using A = ExpertSumArgs;
    return std::array{in("x", &A::x, "P C", kFloats).rows(), in("places", &A::places, "T K", DType::i32),
                      in("weights", &A::weights, "T K", DType::f32).optional(), out("y", &A::y, "T C", like("x")).rows()};
  }
};

struct ExpertDotsArgs {
  static constexpr const char* kOp = "expert_dots";
  View dy, x, places;  // [T, C]; [P, C]; [T, k]
  MutView dots;        // [T, k]

  static constexpr auto operands() {
    using namespace operand;
    using A = ExpertDotsArgs;
    return std::array{in("dy", &A::dy, "T C", kFloats).rows(), in("x", &A::x, "P C", like("dy")).rows(),
                      in("places", &A::places, "T K", DType::i32), out("dots", &A::dots, "T K", DType::f32)};
  }
};

void expert_rows(Stream& stream, const ExpertRowsArgs& args);
void expert_sum(Stream& stream, const ExpertSumArgs& args);
void expert_dots(Stream& stream, const ExpertDotsArgs& args);
inline Cost cost(const ExpertRowsArgs& a) { return {operand_bytes(a), a.weights ? double(a.y.numel()) : 0}; }
inline Cost cost(const ExpertSumArgs& a) { return {operand_bytes(a), 2.0 * double(a.x.numel())}; }
inline Cost cost(const ExpertDotsArgs& a) { return {operand_bytes(a), 2.0 * double(a.x.numel())}; }

struct ExpertOrder;

// The rows [P, C] of x [T, C], sorted by expert. Differentiable in x.
Tensor expert_rows(const Tensor& x, const ExpertOrder& order);
// The weighted sum [T, C] of each token's rows. Differentiable in x and weights.
Tensor expert_sum(const Tensor& x, const ExpertOrder& order, const Tensor& weights);

}  // namespace weft
