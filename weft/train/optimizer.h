// One optimizer over a model's parameters: which update each of them gets, and the state that goes with it.
//
//   adamw, sgd, lion   every parameter
//   muon               matrices inside the blocks; AdamW for embeddings, the head, and everything of one axis
//
// Weight decay goes to parameters of two axes and more, or to all on request. A bf16 parameter has an f32 master copy,
// which is what is updated. State tensors have names ("m.<parameter>", "v.<parameter>", "master.<parameter>").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/tensor/named_tensor.h"

namespace weft {

enum class OptimizerKind { adamw, sgd, lion, muon };
std::string_view name(OptimizerKind kind);
OptimizerKind optimizer_from_name(std::string_view name);  // throws on a name that is none of ours, listing them

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adamw;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;  // adamw (and muon's AdamW part); lion uses the betas
  double momentum = 0.9;                         // sgd, muon
  bool nesterov = false;                         // sgd
  double weight_decay = 0.1;
  bool decay_all = false;  // vectors too
};

class Optimizer {
 public:
  // `parameters` are leaves that require a gradient. State starts at zero; masters at their parameter's values.
  Optimizer(Device& device, std::vector<NamedTensor> parameters, const OptimizerOptions& options);

  // One update from the parameters' gradients, scaled by `grad_scale` (a device scalar: gradient_norm's clip). A
  // parameter without a gradient is an error.
  void step(double learning_rate, const Tensor& grad_scale);

  // Its halves: the scalars of the next step into device memory, after a fault of work before is raised; and the launches.
  void set_rate(double learning_rate);
  void update(const Tensor& grad_scale);

  int64_t steps() const { return steps_; }  // taken so far
  void set_steps(int64_t steps) { steps_ = steps; }

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& state() const { return state_; }
  const OptimizerOptions& options() const { return options_; }
  bool decays(const NamedTensor& parameter) const { return options_.decay_all || parameter.tensor.rank() >= 2; }
  // Whether muon makes this one's update orthogonal.
  static bool orthogonal(const NamedTensor& parameter);

 private:
  struct Slots {
    Tensor m, v, master;
  };
  Tensor add_state(const std::string& prefix, const NamedTensor& parameter);
  void update_adamw(const std::vector<size_t>& which, const Tensor& grad_scale);
  void update_sgd(const Tensor& grad_scale);
  void update_lion(const Tensor& grad_scale);
  void update_muon(const std::vector<size_t>& which, const Tensor& grad_scale);
  float decay_of(size_t i) const { return decays(parameters_[i]) ? float(options_.weight_decay) : 0.0f; }

  Device& device_;
  OptimizerOptions options_;
  std::vector<NamedTensor> parameters_, state_;
  std::vector<Slots> slots_;                    // one per parameter
  std::vector<size_t> elementwise_, matrices_;  // what AdamW and Muon update
  Tensor learning_rate_, step_;                 // device scalars
  int64_t steps_ = 0;
};

}  // namespace weft
