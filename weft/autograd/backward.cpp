#include "weft/autograd/backward.h"

#include <map>

#include "weft/autograd/leaf_watch.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/gradient_home.h"
#include "weft/tensor/node.h"
#include "weft/tensor/watch.h"

namespace weft {
namespace {

// Memory for the gradient of a leaf of this shape, not initialised.
Tensor gradient_memory(const Node& leaf, Device& device, const Shape& shape) {
  return leaf.home ? leaf.home->place(device, leaf.home_place) : Tensor::empty(device, shape);
}

// Gradients under way: for each node not yet visited, the sum that has reached each of its outputs.
class Frontier {
 public:
  void add(const std::shared_ptr<Node>& node, int output, Tensor grad) {
    if (node->leaf()) {
      if (LeafWatch* watch = leaf_watch()) watch->before_addition(*node);
      add_to_leaf(*node, std::move(grad));
      return show_addition(*node);
    }
    check(!node->walked, node->op, "backward() has visited this op already and released its saved tensors; run the forward again");
    Pending& pending = pending_[node->order];
    pending.node = node;
    pending.grads.resize(size_t(node->outputs));
    Tensor& slot = pending.grads[size_t(output)];
    if (!slot)
      slot = std::move(grad);
    else
      slot.sole_owner() && slot.contiguous() ? add_assign(slot, grad) : void(slot = weft::add(slot, grad));
  }

  static void show_addition(const Node& node) {
    if (LeafWatch* watch = leaf_watch(); watch && node.leaf()) watch->added(node);
  }

  // The sum that a rule may add to (Upstream::sum), in memory that nothing else refers to.
  Tensor sum(const Node& node, int output) {
    if (node.leaf()) {
      if (LeafWatch* watch = leaf_watch()) watch->before_addition(node);
      return node.grad;
    }
    const auto found = pending_.find(node.order);
    if (found == pending_.end()) return Tensor();
    Tensor& slot = found->second.grads[size_t(output)];
    if (slot && !(slot.sole_owner() && slot.contiguous())) {
      const Tensor own = Tensor::empty(slot.device(), slot.shape(), slot.dtype());
      copy(slot, own);
      slot = own;
    }
    return slot;
  }

  // Takes the node created last: all its readers came after it, so all its gradients have arrived.
  bool take_last(std::shared_ptr<Node>& node, std::vector<Tensor>& grads) {
    if (pending_.empty()) return false;
    auto last = std::prev(pending_.end());
    node = std::move(last->second.node);
    grads = std::move(last->second.grads);
    pending_.erase(last);
    return true;
  }

 private:
  static void add_to_leaf(Node& leaf, Tensor grad) {
    if (leaf.grad) return add_assign(leaf.grad, grad);
    if (grad.dtype() == DType::f32 && grad.contiguous() && grad.sole_owner() && !leaf.home) {
      leaf.grad = std::move(grad);
      leaf.grad.count_as(MemoryUse::gradients);
      return;
    }
    // A copy: the memory may also be on its way to another leaf, or be the caller's.
    const MemoryScope scope(grad.device(), MemoryUse::gradients);
    leaf.grad = gradient_memory(leaf, grad.device(), grad.shape());
    copy(grad, leaf.grad);
  }

  struct Pending {
    std::shared_ptr<Node> node;
    std::vector<Tensor> grads;
  };
  std::map<uint64_t, Pending> pending_;  // by creation order
};

// Runs a node's rule and passes its gradients on. The rule, its saved tensors and `grads` are released.
void visit(Node& node, std::vector<Tensor> grads, Frontier& frontier) {
  std::vector<Tensor> offered(node.inputs.size()), results;
  {
    Upstream up{.grads = std::move(grads), .wanted = {}};
    if (node.contiguous)
      for (Tensor& grad : up.grads) grad = contiguous(grad);
    for (const std::shared_ptr<Node>& input : node.inputs) up.wanted.push_back(input != nullptr);
    up.sum_of = [&](size_t i) { return offered[i] = frontier.sum(*node.inputs[i], node.input_outputs[i]); };
    const BackwardRule rule = std::move(node.backward);
    node.backward = nullptr;
    node.walked = true;
    try {
      results = rule(up);
    } catch (const Overwritten& error) {
      throw Error(error.code(), node.op, error.message);
    }
  }
  check(results.size() == node.inputs.size(), node.op, "its backward rule returned ", results.size(), " gradients for ", node.inputs.size(),
        " inputs");
  for (size_t i = 0; i < results.size() && watched(); ++i)
    if (node.inputs[i]) show({node.op, true, int(i), results[i]});
  for (size_t i = 0; i < results.size(); ++i) {
    if (!node.inputs[i]) continue;
    check(results[i].defined(), node.op, "its backward rule lost the gradient of input ", i);
    if (std::exchange(offered[i], {}).same_memory(results[i])) {  // added there already
      results[i] = Tensor();
      Frontier::show_addition(*node.inputs[i]);
      continue;
    }
    frontier.add(node.inputs[i], node.input_outputs[i], std::move(results[i]));
  }
  node.inputs.clear();  // releases nodes that nothing else holds
}

}  // namespace

void backward(std::span<const Tensor> y, std::span<const Tensor> dy) {
  check(y.size() == dy.size(), "backward", "there are ", y.size(), " tensors and ", dy.size(), " gradients");
  const NoGrad no_grad;
  Frontier frontier;
  for (size_t i = 0; i < y.size(); ++i) {
    if (!dy[i]) continue;
    check(y[i].requires_grad(), "backward", "no input of this tensor requires a gradient");
    check(dy[i].shape() == y[i].shape(), "backward", "the gradient has shape ", dy[i].shape(), ", the tensor ", y[i].shape());
    frontier.add(y[i].node(), y[i].node_output(), dy[i].detach());
  }
  std::shared_ptr<Node> node;
  std::vector<Tensor> arrived;
  while (frontier.take_last(node, arrived)) visit(*node, std::move(arrived), frontier);
}

void backward(const Tensor& y, const Tensor& dy) {
  check(y.requires_grad(), "backward", "no input of this tensor requires a gradient");
  check(dy.defined(), "backward", "the gradient is undefined");
  backward(std::span(&y, 1), std::span(&dy, 1));
}

void backward(const Tensor& loss) {
  check(loss.defined() && loss.numel() == 1, "backward", "the loss must hold one element, got shape ", loss.shape());
  backward(loss, full(loss.device(), loss.shape(), 1.0, loss.dtype()));
}

void zero_grad(const Tensor& leaf) {
  check(leaf.requires_grad() && leaf.node()->leaf(), "zero_grad", "only a leaf that requires a gradient has one");
  const NoGrad no_grad;
  Tensor& grad = leaf.node()->grad;
  if (grad) return zero(grad);
  const MemoryScope scope(leaf.device(), MemoryUse::gradients);
  grad = gradient_memory(*leaf.node(), leaf.device(), leaf.shape());
  zero(grad);
}

void Tensor::backward() const { weft::backward(*this); }

}  // namespace weft
