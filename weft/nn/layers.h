// Layers with weights: plain structs of tensors, each a function of its input.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "weft/nn/weights.h"
#include "weft/ops/elementwise/kind.h"
#include "weft/tensor/tensor.h"

namespace weft {

// y = x W^T + b, W [out, in]; or, stored the other way round as GPT-2's Conv1D does, y = x W + b, W [in, out].
struct Linear {
  enum class Layout { out_in, in_out };
  struct Options {
    bool bias = false;
    Layout layout = Layout::out_in;
    double stddev = 0.02;  // of new weights
  };

  // Memory for new parameters, such as parts of larger tensors; undefined: their own.
  struct Place {
    Tensor weight, bias;
  };

  Linear() = default;
  // A layer of its own, not part of a model: f32 weights drawn from `seed` that require a gradient. Layers of one shape need
  // different seeds, or they start equal.
  Linear(Device& device, int64_t in, int64_t out, uint64_t seed = 0);
  Linear(Device& device, int64_t in, int64_t out, const Options& options, uint64_t seed = 0);
  Linear(Weights& weights, const std::string& name, int64_t in, int64_t out, const Options& options)
      : Linear(weights, name, in, out, options, Place{}) {}
  Linear(Weights& weights, const std::string& name, int64_t in, int64_t out, const Options& options, const Place& place);

  Tensor weight, bias;  // bias may be undefined: none
  Int8Matrix int8;      // [out, in]; replaces `weight` in a model with int8 weights
  Layout layout = Layout::out_in;
  LowRank adapter;                       // added if defined (weft/nn/lora.h)
  std::shared_ptr<NamedAdapters> named;  // added to the rows of sequences that use them; null in a layer outside a model

  explicit operator bool() const { return weight || int8; }
  std::vector<Parameter> parameters() const;  // "weight", "bias", and an adapter's "lora_A.weight", "lora_B.weight"

  Tensor operator()(const Tensor& x, Activation activation = Activation::none, const LoraUse& lora = {}) const;
  Tensor operator()(const Tensor& x, const LoraUse& lora) const { return (*this)(x, Activation::none, lora); }
  bool has_named(const LoraUse& lora) const { return named && named->used_by(lora); }

 private:
  Tensor product(const Tensor& x, Activation activation) const;
  Tensor add_named(const Tensor& x, const Tensor& sum, Activation activation, const LoraUse& lora) const;
};

// Each layer applied to the same x; in one launch if no gradient is recorded.
std::vector<Tensor> apply_each(std::span<const Linear* const> layers, const Tensor& x, const LoraUse& lora = {});

// The residual stream between two layers: its value is x + delta. The next norm computes the sum. An undefined delta adds
// nothing.
struct Residual {
  Tensor x, delta;
};

// Result of a norm: h = x + delta, and y = norm(h).
struct Normed {
  Tensor h, y;
};

struct RmsNorm {
  RmsNorm() = default;
  // `adds_one` (Gemma): the gain is 1 + weight, computed in f32; new weights are zeros.
  RmsNorm(Weights& weights, const std::string& name, int64_t size, double eps, bool adds_one = false);

  Tensor weight;
  float eps = 0;
  bool adds_one = false;

  std::vector<Parameter> parameters() const { return {{"weight", weight}}; }

  Tensor operator()(const Tensor& x) const;
  Normed operator()(const Residual& stream) const;
  explicit operator bool() const { return weight.defined(); }

 private:
  Tensor gain() const;
};

struct LayerNorm {
  LayerNorm() = default;
  LayerNorm(Weights& weights, const std::string& name, int64_t size, double eps);

  Tensor weight, bias;
  float eps = 0;

  std::vector<Parameter> parameters() const { return {{"weight", weight}, {"bias", bias}}; }

  Tensor operator()(const Tensor& x) const;
  Normed operator()(const Residual& stream) const;
};

}  // namespace weft
