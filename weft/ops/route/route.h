// Top-k routing of a mixture of experts (Shazeer et al., 2017): chooses k of E experts for each token by the router's logits.
//
//   ids[t] = the k largest of logits[t], in ascending order of experts; of equal logits the lower expert is chosen
//   weights[t, j] = p[ids[t, j]],   p = softmax over all logits of the row, or (of_chosen) over the k chosen ones
//
//   dlogits[t, e] = p_e (g_e - s),  g_e = dweights of e if it is chosen, else 0;  s = sum over e of p_e g_e
//
// of_chosen equals the softmax over all logits divided by the sum of the chosen: norm_topk_prob, Mixtral, gpt-oss. A NaN counts as the
// largest logit; weights become NaN, ids are always valid. logits are f32 or bf16, the arithmetic and weights f32.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct RouteArgs {
  static constexpr const char* kOp = "route";
  static constexpr int64_t kMostExperts = 1024;  // GPU kernels keep a row in the registers of one warp
  View logits;
  MutView ids, weights;
  bool of_chosen;

  static constexpr auto operands() {
    using namespace operand;
    using A = RouteArgs;
    return std::array{in("logits", &A::logits, "... E", kFloats).rows(), out("ids", &A::ids, "... K", DType::i32),
                      out("weights", &A::weights, "... K", DType::f32)};
  }
};

struct RouteBackwardArgs {
  static constexpr const char* kOp = "route_backward";
  View logits, ids, dweights;  // ids: of the forward pass
  MutView dlogits;
  bool of_chosen;

  static constexpr auto operands() {
    using namespace operand;
    using A = RouteBackwardArgs;
    return std::array{in("logits", &A::logits, "... E", kFloats).rows(), in("ids", &A::ids, "... K", DType::i32),
                      in("dweights", &A::dweights, "... K", DType::f32), out("dlogits", &A::dlogits, "... E", like("logits")).rows()};
  }
};

void route(Stream& stream, const RouteArgs& args);
void route_backward(Stream& stream, const RouteBackwardArgs& args);
// A softmax, and one comparison per logit for each chosen expert.
inline Cost cost(const RouteArgs& a) { return {operand_bytes(a), (5.0 + double(a.ids.shape.back())) * double(a.logits.numel())}; }
inline Cost cost(const RouteBackwardArgs& a) { return {operand_bytes(a), 8.0 * double(a.logits.numel())}; }

struct Routed {
  Tensor ids;      // [..., k] i32
  Tensor weights;  // [..., k] f32; differentiable
};
Routed route(const Tensor& logits, int64_t chosen, bool of_chosen);

}  // namespace weft
