// The feed-forward layer of a mixture of experts: a router picks `chosen` of E gated MLPs for each token.
//
//   y = sum over the chosen experts e, ascending, of weight_e down_e(gate of (gate_e x, up_e x))
//
// There is no capacity limit: no token is dropped or padded. Rows are sorted by expert and multiplied by grouped GEMMs
// (weft/ops/grouped_matmul). The bits of a row do not depend on the rest of the batch. The counts per expert stay on the device.
#pragma once

#include "weft/nn/mlp.h"

namespace weft {

struct ExpertOrder;

// Sums over tokens and layers for the load-balancing loss (Fedus et al., 2021, as transformers computes it): [E], f32.
struct RouterBalance {
  Tensor probabilities;  // of each expert; differentiable
  Tensor counts;         // how often each expert was chosen

  explicit operator bool() const { return probabilities.defined(); }
  // Adds the tokens of one layer. `real` [T, 1]: 1 for a token, 0 for padding, which is not counted; undefined: no padding.
  RouterBalance plus(const Tensor& logits, const ExpertOrder& order, const Tensor& real) const;
  // E sum over e of (counts_e / rows) (probabilities_e / rows), with rows = sum of counts / chosen = tokens times layers.
  Tensor loss(int64_t chosen) const;
};

struct Experts {
  struct Options {
    int64_t in, size, experts, chosen;
    bool of_chosen = true;  // softmax over the logits of the chosen experts; false: over those of all (weft/ops/route)
    HiddenActivation activation = HiddenActivation::silu;
    double stddev = 0.02;
    // true (gpt-oss): the router and the experts have biases, matrices are [in, out] with alternating columns of gate and up, and
    //   gate of (g, u) = (u' + 1) g' sigmoid(gate_slope g'),  g' = min(g, gate_limit),  u' = u clamped to +-gate_limit.
    // false: matrices are [out, in], the rows of gate before those of up, and gate of (g, u) = f(g) u.
    bool clamped = false;
    float gate_slope = 1.702f, gate_limit = 7;
  };

  Experts() = default;
  // Takes the parameters prefix + "gate" (or "router"), "experts.gate_up_proj" and "experts.down_proj". LoRA does not apply to them.
  Experts(Weights& weights, const std::string& prefix, const Options& options);

  Tensor router, router_bias;                     // [E, in], [E]
  Tensor gate_up, gate_up_bias, down, down_bias;  // [E, 2 size, in] and [E, in, size]; with `clamped` [E, in, 2 size], [E, size, in]
  Options options = {};

  explicit operator bool() const { return router.defined(); }
  // Adds the tokens to `balance`, if given, except those that `real` masks.
  Tensor operator()(const Tensor& x, RouterBalance* balance = nullptr, const Tensor& real = {}, const SeeIntermediate& see = {}) const;

 private:
  Tensor hidden(const Tensor& gate_up) const;
};

}  // namespace weft
