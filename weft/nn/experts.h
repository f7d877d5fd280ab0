// The feed-forward layer of a mixture of experts: each token goes through `chosen` of E gated MLPs, which a router picks.
//
//   y = sum over the chosen experts e, ascending, of weight_e down_e(gate of (gate_e x, up_e x))
//
// No token is dropped and none is padded: rows are sorted by expert and multiplied in groups (weft/ops/grouped_matmul). Every row has
// the bits of its own, whatever else is in the batch. The counts stay on the device.
#pragma once

#include "weft/nn/mlp.h"

namespace weft {

struct ExpertOrder;

// Sums over layers for the load-balancing loss (Fedus et al., 2021, as transformers computes it): [E] each.
struct RouterBalance {
  Tensor probabilities;  // of each expert, over all tokens and layers; differentiable
  Tensor counts;         // how often it was chosen, f32

  explicit operator bool() const { return probabilities.defined(); }
  // `real` [T, 1]: 1 for a token, 0 for padding, which is left out. Undefined: all are tokens.
  RouterBalance plus(const Tensor& logits, const ExpertOrder& order, const Tensor& real) const;
  // E sum over e of (counts_e / rows) (probabilities_e / rows); `rows`: tokens times layers, from the counts, of which each has `chosen`.
  Tensor loss(int64_t chosen) const;
};

struct Experts {
  struct Options {
    int64_t in, size, experts, chosen;
    bool of_chosen = true;  // the weights are the softmax of the chosen logits, else of all (weft/ops/route)
    HiddenActivation activation = HiddenActivation::silu;
    double stddev = 0.02;
    // gpt-oss: the router and the experts have biases, matrices are [in, out], columns are gate and up in turns, and
    //   gate of (g, u) = (u' + 1) g' sigmoid(gate_slope g'),  g' = min(g, gate_limit),  u' = u clamped to +-gate_limit.
    // Else matrices are [out, in], the rows of gate above those of up, and it is f(g) u.
    bool clamped = false;
    float gate_slope = 1.702f, gate_limit = 7;
  };

  Experts() = default;
  // Named prefix + "gate" or "router", prefix + "experts.gate_up_proj" and "experts.down_proj". No adapters: as in PEFT.
  Experts(Weights& weights, const std::string& prefix, const Options& options);

  Tensor router, router_bias;                     // [E, in], [E]
  Tensor gate_up, gate_up_bias, down, down_bias;  // [E, 2 size, in] and [E, in, size]; with `clamped` [E, in, 2 size], [E, size, in]
  Options options = {};

  explicit operator bool() const { return router.defined(); }
  // `balance`, if given, is added to, but for rows of x that `real` leaves out.
  Tensor operator()(const Tensor& x, RouterBalance* balance = nullptr, const Tensor& real = {}, const SeeIntermediate& see = {}) const;

 private:
  Tensor hidden(const Tensor& gate_up) const;
};

}  // namespace weft
