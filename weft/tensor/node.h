// The graph that ops record and backward() walks (weft/autograd).
//
// An op ends with record(): its inputs, its outputs, and a backward rule or NotDifferentiable. The rule has no default, so an op
// that forgets its gradient does not compile.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "weft/tensor/kept.h"
#include "weft/tensor/tensor.h"

namespace weft {

class GradientHome;

// Input of a rule: the gradient of each output (undefined: none) and which inputs want one.
struct Upstream {
  std::vector<Tensor> grads;
  std::vector<bool> wanted;
  std::function<Tensor(size_t)> sum_of = {};

  // The gradient of input i accumulated so far, to which a rule may add its own: f32 for a leaf, else of the input's dtype.
  // Undefined: none yet.
  Tensor sum(size_t i) const { return sum_of ? sum_of(i) : Tensor(); }
};

// Returns the gradient of each input, in order; undefined where none was wanted. A rule that added its gradient to sum(i)
// returns that tensor. It is called once and then destroyed with its captures. It captures tensors that a caller can reach as Kept.
using BackwardRule = std::function<std::vector<Tensor>(const Upstream&)>;

// The rule of an op without a gradient; `why` is part of the error when one is wanted.
struct NotDifferentiable {
  const char* why;
};

struct Node {
  const char* op;
  uint64_t order;                             // creation order in the process: backward() visits higher first
  std::vector<std::shared_ptr<Node>> inputs;  // null where the input needs no gradient
  std::vector<int> input_outputs;             // which output of that node the input was
  int outputs = 1;
  BackwardRule backward;                    // empty for a leaf, and after its visit
  Tensor grad;                              // leaves only: f32, accumulated over backward() calls
  bool walked = false;                      // its rule has run and is gone
  bool contiguous = false;                  // its rule takes contiguous gradients only
  std::shared_ptr<GradientHome> home = {};  // leaves only: the memory for grad (weft/tensor/gradient_home.h); null: its own
  size_t home_place = 0;

  bool leaf() const { return !backward && !walked; }
};

// Whether ops on this thread record. On by default; NoGrad turns it off for a scope.
bool grad_enabled();
class GradMode {
 public:
  ~GradMode();
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 protected:
  explicit GradMode(bool on);

 private:
  bool before_;
};
struct NoGrad : GradMode {
  NoGrad() : GradMode(false) {}
};
struct WithGrad : GradMode {  // turns it on again, inside a NoGrad
  WithGrad() : GradMode(true) {}
};

// True when recording is on and some input has a node: then an op keeps what its backward reads.
bool should_record(std::span<const Tensor* const> inputs);
inline bool should_record(std::initializer_list<const Tensor*> inputs) { return should_record(std::span(inputs.begin(), inputs.size())); }

namespace detail {
void record(const char* op, std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs, BackwardRule rule);
}

template <class Rule>
void record(const char* op, std::initializer_list<const Tensor*> inputs, std::initializer_list<Tensor*> outputs, Rule&& rule) {
  if (should_record(inputs))
    detail::record(op, std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()), std::forward<Rule>(rule));
}
// For an op whose number of operands is known at run time only.
template <class Rule>
void record(const char* op, std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs, Rule&& rule) {
  if (should_record(inputs)) detail::record(op, inputs, outputs, std::forward<Rule>(rule));
}
inline void record(const char* op, std::initializer_list<const Tensor*> inputs, std::initializer_list<Tensor*>, NotDifferentiable rule) {
  check(!should_record(inputs), op, "has no gradient (", rule.why, "), but an input requires one; use NoGrad or detach()");
}

}  // namespace weft
