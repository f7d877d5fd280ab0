// The graph that ops record and weft/autograd walks back.
//
// An op ends with record(): its inputs, its outputs, and a backward rule or the word that there is none. The rule has
// no default, so an op that forgets its gradient does not compile.
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

// What a rule receives: the gradient of each output (undefined where none flowed back) and which inputs want one.
struct Upstream {
  std::vector<Tensor> grads;
  std::vector<bool> wanted;
  std::function<Tensor(size_t)> sum_of = {};

  // What has reached input i by other ways so far, to which a rule may add its own part: an f32 sum for a leaf, else
  // one of the input's dtype. Undefined where there is none yet.
  Tensor sum(size_t i) const { return sum_of ? sum_of(i) : Tensor(); }
};

// Returns the gradient of each input, in order; undefined where none was wanted. A rule that added its part to sum(i)
// returns that tensor. It is called once and then destroyed, with all it captured: tensors that a caller can reach as Kept.
using BackwardRule = std::function<std::vector<Tensor>(const Upstream&)>;

// The rule of an op that has no gradient; `why` is shown to whoever asks for one.
struct NotDifferentiable {
  const char* why;
};

struct Node {
  const char* op;
  uint64_t order;                             // creation order in the process: the walk back visits higher first
  std::vector<std::shared_ptr<Node>> inputs;  // null where the input needs no gradient
  std::vector<int> input_outputs;             // which output of that node the input was
  int outputs = 1;
  BackwardRule backward;    // empty for a leaf, and once walked
  Tensor grad;              // leaves only: f32, accumulated over backward() calls
  bool walked = false;      // its rule has run and is gone
  bool contiguous = false;  // its rule takes contiguous gradients alone

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
struct WithGrad : GradMode {  // on again, inside a NoGrad
  WithGrad() : GradMode(true) {}
};

// True when recording is on and some input has a node: then an op keeps what its backward needs.
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
