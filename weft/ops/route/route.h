// The experts of each token of a mixture of experts (Shazeer et al., 2017): k of E, by the logits of a router.
//
//   ids[t] = the k largest of logits[t], in ascending order of experts; of equal logits the lower expert is chosen
//   weights[t, j] = p[ids[t, j]],   p = softmax of the row's logits, of all or (of_chosen) of the k chosen ones alone
//
//   dlogits[t, e] = p_e (g_e - s),  g_e = dweights of a chosen expert, 0 of another;  s = sum over e of p_e g_e
//
// of_chosen is the softmax of all, divided by the sum of the chosen: what norm_topk_prob, Mixtral and gpt-oss compute. A NaN counts as
// the largest logit; it makes weights NaN, ids are valid always. logits are f32 or bf16, the arithmetic and weights f32.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct RouteArgs {
  static constexpr const char* kOp = "route";
  static constexpr int64_t kMostExperts = 1024;  // a GPU keeps a row in the registers of 32 threads
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
// A softmax, and a look at every logit for each expert that is chosen.
inline Cost cost(const RouteArgs& a) { return {operand_bytes(a), (5.0 + double(a.ids.shape.back())) * double(a.logits.numel())}; }
inline Cost cost(const RouteBackwardArgs& a) { return {operand_bytes(a), 8.0 * double(a.logits.numel())}; }

struct Routed {
  Tensor ids;      // [..., k] i32
  Tensor weights;  // [..., k] f32; differentiable
};
Routed route(const Tensor& logits, int64_t chosen, bool of_chosen);

}  // namespace weft
