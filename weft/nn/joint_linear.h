// Linear layers of one input as one, for training:
//
//   y = x [W_1; W_2; ...]^T + [b_1, b_2, ...]      y's columns are x W_1^T + b_1, then x W_2^T + b_2, ...
//   dx = dy [W_1; W_2; ...]     [dW_1; dW_2; ...] = dy^T x
//
// Each is one matmul: the weights stand one under the other in one tensor, and so do their gradients. The layers' parameters are parts of
// that memory and stay separate for optimizers, adapters, ranks and files. A column of y has the bits of its own layer, since a matmul sums
// each column alone; dx is one sum over all outputs, where separate layers round a sum for each.
#pragma once

#include <initializer_list>
#include <span>

#include "weft/nn/layers.h"

namespace weft {

class JointLinear {
 public:
  // The first row of every layer is a multiple of this: a column keeps its place among the 8 columns of a matrix unit, on which Metal's
  // order of sums may depend, and every parameter starts at a multiple of 16 bytes.
  static constexpr int64_t kRows = 8;

  struct Part {
    const char* name;
    int64_t out;
    Linear* layer;  // made here
  };

  JointLinear() = default;  // nothing joint: applies() is false
  // Makes the layers, named prefix + name. They get joint memory if the model is trained, all have a multiple of kRows outputs and `join`
  // is true; else memory of their own.
  JointLinear(Weights& weights, const std::string& prefix, int64_t in, std::initializer_list<Part> parts, const Linear::Options& options,
              bool join = true);

  // Whether these layers, the ones made, are to be applied by one matmul: a gradient is recorded, their weights are the joint memory, and
  // all or none of the weights want a gradient, likewise all or none of the biases. Else apply_each() is the way.
  bool applies(std::span<const Linear* const> layers, const Tensor& x) const;

  // y [..., sum of the outputs], adapters included. Differentiable.
  Tensor operator()(std::span<const Linear* const> layers, const Tensor& x, const LoraUse& lora = {}) const;

 private:
  Tensor weight_, bias_;  // of all layers; undefined: not joint, none
};

}  // namespace weft
