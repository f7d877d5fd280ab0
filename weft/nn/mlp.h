// The two feed-forward layers of a transformer block:
//
//   GatedMlp:  y = down(f(gate x) * (up x))          (Shazeer, 2020; Llama, Qwen: f = silu)
//   Mlp:       y = c_proj(f(c_fc x))                 (GPT-2: f = gelu_tanh)
//
// `lora`: the adapters of the pass. `see` is called with the name and value of each intermediate result.
#pragma once

#include <functional>

#include "weft/nn/joint_linear.h"

namespace weft {

using SeeIntermediate = std::function<void(const char* name, const Tensor& value)>;

enum class HiddenActivation { silu, relu, gelu_tanh, gelu_erf };
const char* name(HiddenActivation kind);

// f(gate) up [..., F] of a tensor [..., 2 F] whose columns are gate, then up.
Tensor gated(HiddenActivation kind, const Tensor& gate_up);

struct GatedMlp {
  Linear gate, up, down;
  HiddenActivation activation = HiddenActivation::silu;
  JointLinear gate_up = {};  // of gate and up, if they were made joint
  Linear fused = {};         // Phi-3's gate_up_proj: one layer with the rows of gate, then those of up; replaces both

  std::vector<Parameter> parameters() const {
    if (fused) return all_parameters({{"gate_up", fused.parameters()}, {"down", down.parameters()}});
    return all_parameters({{"gate", gate.parameters()}, {"up", up.parameters()}, {"down", down.parameters()}});
  }

  Tensor operator()(const Tensor& x, const LoraUse& lora = {}, const SeeIntermediate& see = {}) const;

 private:
  Tensor hidden(const Tensor& x, const LoraUse& lora, const SeeIntermediate& see) const;
};

struct Mlp {
  Linear fc, proj;
  HiddenActivation activation = HiddenActivation::gelu_tanh;

  std::vector<Parameter> parameters() const { return all_parameters({{"fc", fc.parameters()}, {"proj", proj.parameters()}}); }

  Tensor operator()(const Tensor& x, const LoraUse& lora = {}, const SeeIntermediate& see = {}) const;

 private:
  Tensor hidden(const Tensor& x, const LoraUse& lora) const;
};

}  // namespace weft
