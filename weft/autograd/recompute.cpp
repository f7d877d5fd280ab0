#include "weft/autograd/recompute.h"

#include "weft/autograd/backward.h"
#include "weft/tensor/node.h"
#include "weft/tensor/watch.h"

namespace weft {
namespace {

// x with a node that stores its gradient in `grad`. The node is not a leaf: its gradient is summed and rounded like that of any
// value inside a graph.
Tensor gate(const Tensor& x, Tensor& grad) {
  Tensor out = x.detach();
  Tensor* const outputs[] = {&out};
  detail::record("recompute_input", {}, outputs, [&grad](const Upstream& up) {
    grad = up.grads[0];
    return std::vector<Tensor>();
  });
  return out;
}

std::vector<Tensor> run_again(const RecomputedFunction& f, const std::vector<Kept>& kept, const Upstream& up) {
  const std::vector<Tensor> inputs(kept.begin(), kept.end());
  std::vector<Tensor> grads(inputs.size()), gated, outputs;
  {
    const WithGrad recorded;
    for (size_t i = 0; i < inputs.size(); ++i) gated.push_back(up.wanted[i] ? gate(inputs[i], grads[i]) : inputs[i]);
    outputs = f(gated);
  }
  check(outputs.size() == up.grads.size(), "recompute", "the function returned ", outputs.size(), " tensors, the first time ",
        up.grads.size());
  gated.clear();
  std::vector<Tensor> arrived = up.grads;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i].requires_grad()) arrived[i] = Tensor();  // nothing in it is trained
  backward(outputs, arrived);
  return grads;
}

}  // namespace

std::vector<Tensor> recompute(const RecomputedFunction& f, const std::vector<Tensor>& inputs) {
  if (!grad_enabled()) return f(inputs);
  const std::vector<Kept> kept(inputs.begin(), inputs.end());
  std::vector<Tensor> outputs;
  std::vector<const Tensor*> in;
  std::vector<Tensor*> out;
  for (const Tensor& input : inputs) in.push_back(&input);
  if (watched()) {  // an observer wants to see the ops inside, which show themselves when they record
    for (const Tensor& output : f(inputs)) outputs.push_back(output.detach());
  } else {
    const NoGrad no_grad;
    outputs = f(std::vector<Tensor>(kept.begin(), kept.end()));
  }
  for (Tensor& output : outputs) out.push_back(&output);
  detail::record("recompute", in, out, [f, kept](const Upstream& up) { return run_again(f, kept, up); });
  return outputs;
}

}  // namespace weft
