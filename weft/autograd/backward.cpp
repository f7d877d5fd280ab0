#include "weft/autograd/backward.h"

#include <map>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// Gradients on their way: for each node not yet visited, what has reached each of its outputs.
class Frontier {
 public:
  void add(const std::shared_ptr<Node>& node, int output, const Tensor& grad) {
    if (!node->backward) return add_to_leaf(*node, grad);
    Pending& pending = pending_[node->order];
    pending.node = node;
    pending.grads.resize(size_t(node->outputs));
    Tensor& slot = pending.grads[size_t(output)];
    slot = slot ? weft::add(slot, grad) : grad;
  }

  // The node created last: all its readers came after it, so all its gradients have arrived.
  bool take_last(std::shared_ptr<Node>& node, std::vector<Tensor>& grads) {
    if (pending_.empty()) return false;
    auto last = std::prev(pending_.end());
    node = std::move(last->second.node);
    grads = std::move(last->second.grads);
    pending_.erase(last);
    return true;
  }

 private:
  static void add_to_leaf(Node& leaf, const Tensor& grad) {
    if (leaf.grad) return add_assign(leaf.grad, grad);
    // A copy of its own: the same gradient may be on its way to another leaf.
    const MemoryScope scope(grad.device(), MemoryUse::gradients);
    leaf.grad = Tensor::empty(grad.device(), grad.shape(), DType::f32);
    copy(grad, leaf.grad);
  }

  struct Pending {
    std::shared_ptr<Node> node;
    std::vector<Tensor> grads;
  };
  std::map<uint64_t, Pending> pending_;  // by creation order
};

}  // namespace

void backward(const Tensor& y, const Tensor& dy) {
  check(y.requires_grad(), "backward", "nothing that led to this tensor requires a gradient");
  check(dy.defined() && dy.shape() == y.shape(), "backward", "the gradient has shape ", dy.shape(), ", the tensor ", y.shape());
  const NoGrad no_grad;
  Frontier frontier;
  frontier.add(y.node(), y.node_output(), dy);
  std::shared_ptr<Node> node;
  Upstream up;
  while (frontier.take_last(node, up.grads)) {
    up.wanted.assign(node->inputs.size(), false);
    for (size_t i = 0; i < node->inputs.size(); ++i) up.wanted[i] = node->inputs[i] != nullptr;
    const std::vector<Tensor> grads = node->backward(up);
    check(grads.size() == node->inputs.size(), node->op, "its backward rule gave ", grads.size(), " gradients for ", node->inputs.size(), " inputs");
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!node->inputs[i]) continue;
      check(grads[i].defined(), node->op, "its backward rule lost the gradient of input ", i);
      frontier.add(node->inputs[i], node->input_outputs[i], grads[i]);
    }
  }
}

void backward(const Tensor& loss) {
  check(loss.defined() && loss.numel() == 1, "backward", "the loss must hold one element, got shape ", loss.shape());
  backward(loss, full(loss.device(), loss.shape(), 1.0, loss.dtype()));
}

}  // namespace weft
