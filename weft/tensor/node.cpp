#include "weft/tensor/node.h"

#include <atomic>

#include "weft/tensor/watch.h"

namespace weft {
namespace {
thread_local bool recording = true;
// Shared by all threads: a graph may continue in another thread, and a node must come after all its inputs.
std::atomic<uint64_t> next_order = 1;

// Destroys iteratively: a node releases its inputs, and recursion over a long chain overflows the stack.
thread_local std::vector<Node*>* waiting = nullptr;
void destroy(Node* node) {
  if (waiting) return waiting->push_back(node);
  std::vector<Node*> others;
  waiting = &others;
  delete node;
  while (!others.empty()) {
    Node* const next = others.back();
    others.pop_back();
    delete next;
  }
  waiting = nullptr;
}
}  // namespace

bool grad_enabled() { return recording; }
GradMode::GradMode(bool on) : before_(std::exchange(recording, on)) {}
GradMode::~GradMode() { recording = before_; }

bool should_record(std::span<const Tensor* const> inputs) {
  if (!recording) return false;
  for (const Tensor* input : inputs)
    if (input->requires_grad()) return true;
  return false;
}

void detail::record(const char* op, std::span<const Tensor* const> inputs, std::span<Tensor* const> outputs, BackwardRule rule) {
  const std::shared_ptr<Node> node(new Node{}, destroy);
  node->op = op;
  node->order = next_order.fetch_add(1, std::memory_order_relaxed);
  node->outputs = int(outputs.size());
  node->backward = std::move(rule);
  node->inputs.reserve(inputs.size());
  node->input_outputs.reserve(inputs.size());
  for (const Tensor* input : inputs) {
    node->inputs.push_back(input->node());
    node->input_outputs.push_back(input->node_output());
  }
  int index = 0;
  for (Tensor* output : outputs) output->set_node(node, index++);
  if (watched()) [[unlikely]]
    for (index = 0; index < node->outputs; ++index) show({op, false, index, *outputs[size_t(index)]});
}

}  // namespace weft
