// Optimizers: objects that update a list of parameters from their gradients. The four there are: weft/train/optimizers.h.
//
//   AdamW optimizer(layer.parameters(), {.learning_rate = 1e-3});
//   loss.backward();          // adds to the gradient of every parameter
//   optimizer.step();         // updates the parameters; leaves the gradients as they are
//   optimizer.zero_grad();    // sets the gradients to zero; without it the next backward() adds to them
//
// A bf16 parameter has an f32 master copy; the master is updated, the parameter is the master rounded. State tensors have names
// ("m.<parameter>", "v.<parameter>", "master.<parameter>"), under which a checkpoint keeps them.
//
// One of several ranks may own a range of each parameter only (weft/train/sharding.h): it then has state of that range alone, and updates
// it alone. Parts of a parameter get the bits that the whole would get.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/nn/parameter.h"
#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/train/sharding.h"

namespace weft {

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // Updates every parameter once. `grad_scale` (one f32 on the device, such as gradient_norm's clip) multiplies the gradients;
  // undefined: 1. Throws when a parameter has no gradient, and when an earlier kernel found bad data.
  void step(const Tensor& grad_scale = {});
  // Sets the gradients that exist to zero, in the memory they have.
  void zero_grad();

  // The norm of all gradients, and the factor that clips it to `max_norm` (0: 1), to pass to step(). Both stay on the device.
  GradientNorm gradient_norm(double max_norm) const;

  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double rate) { learning_rate_ = rate; }

  // step() in two halves, for a caller that captures launches into a graph and replays them: begin_step() checks, counts the
  // step and writes learning rate and step number into device memory, update() only launches kernels.
  void begin_step();
  void update(const Tensor& grad_scale);
  // Gives every parameter a gradient of zeros that keeps its memory from step to step, which a captured graph needs. All of them are
  // parts of one tensor of one axis, which is returned: one launch clears or adds them. Between them it has zeros.
  Tensor allocate_gradients();

  int64_t steps() const { return steps_; }           // taken so far
  void set_steps(int64_t steps) { steps_ = steps; }  // when a run resumes
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& state() const { return state_; }

  // The elements of parameter i that are updated here.
  Range owned(size_t i) const { return owned_[i]; }
  bool owns_all(size_t i) const { return owned_[i].count == parameters_[i].tensor.numel(); }
  // The state of all ranks together, in a checkpoint's order: of each tensor the range that is here. `tensor` has the parameter's shape
  // if all of it is, else one axis; undefined: nothing of it is.
  struct StatePart {
    std::string name;
    size_t parameter;
    Range range;
    Tensor tensor;
  };
  const std::vector<StatePart>& state_parts() const { return state_parts_; }
  // Whether parameter i must be owned as a whole.
  virtual bool whole(size_t) const { return false; }
  // Gradients of the owned ranges, of one axis, in place of the parameters' own; undefined for an empty range. An empty list undoes it.
  void set_gradient_ranges(std::vector<Tensor> gradients);

 protected:
  struct Decay {
    double weight_decay;
    bool all;  // vectors too
  };
  // The state of one parameter; undefined: the optimizer keeps none of that name.
  struct Slots {
    Tensor m, v, master;
  };
  struct Moments {
    bool m, v;
  };

  // `parameters` are leaves on one device that require a gradient. `owned`: a range of each; empty: all of every one.
  Optimizer(std::vector<Parameter> parameters, double learning_rate, Decay decay, std::vector<Range> owned);
  // Adds the state of the next parameter, in their order: moments of zeros, and the master of a bf16 parameter.
  void add_state(Moments moments);

  // Launches the update of every parameter.
  virtual void launch(const Tensor& grad_scale) = 0;
  // AdamW's update, which Muon too uses for some parameters.
  struct AdamWFactors {
    double beta1, beta2, eps;
  };
  void launch_adamw(const std::vector<size_t>& which, const AdamWFactors& factors, const Tensor& grad_scale);

  Device& device() const { return device_; }
  const Parameter& parameter(size_t i) const { return parameters_[i]; }
  const Slots& slots(size_t i) const { return slots_[i]; }
  float decay_of(size_t i) const;
  // The owned range of parameter i and of its gradient: in the parameter's shape if that is all, else of one axis.
  bool owns(size_t i) const { return owned_[i].count > 0; }
  MutView weights(size_t i) const;
  View gradient(size_t i) const;
  View learning_rate_view() const { return rate_scalar_.view(); }

 private:
  Tensor zeros_of(const char* kind, size_t parameter);

  std::vector<Parameter> parameters_;
  Device& device_;
  double learning_rate_;
  Decay decay_;
  std::vector<Range> owned_;  // one per parameter
  std::vector<Tensor> gradient_ranges_;
  Tensor gradients_;  // of all parameters, where allocate_gradients() made them
  std::vector<NamedTensor> state_;
  std::vector<StatePart> state_parts_;
  std::vector<Slots> slots_;          // one per parameter
  Tensor rate_scalar_, step_scalar_;  // what the kernels read
  Tensor one_;                        // the gradient scale of a step that has none
  int64_t steps_ = 0;
};

}  // namespace weft
