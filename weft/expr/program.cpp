#include "weft/expr/program.h"

#include <algorithm>
#include <utility>

#include "weft/base/check.h"

namespace weft::expr {
namespace {

constexpr int kMostNodes = 16384;  // limits the recursion below, one level per node of a chain

class Compiler {
 public:
  Compiler(const Graph& graph, std::span<const Source> sources, bool stores_last)
      : graph_(graph), sources_(sources), stores_last_(stores_last && graph.outputs.size() > 1), nodes_(size_t(graph.size())) {
    program_.inputs = graph.inputs;
    program_.outputs = int(graph.outputs.size());
    program_.code.reserve(size_t(graph.size()) * 2 + graph.outputs.size());
  }

  Program run() {
    count_uses();
    if (stores_last_)
      for (int node : graph_.outputs) to_slot(node);
    for (int node : graph_.outputs) {
      if (state(node).stored) continue;
      to_accumulator(node, 0);
      if (!state(node).stored) store(node);
    }
    return std::move(program_);
  }

 private:
  struct State {
    int readers = 0;  // uses of the node as operand or output in the graph
    int uses = 0;     // uses that remain in the program
    int need = 0;     // slots needed to compute it (Sethi-Ullman number, as if the graph were a tree)
    int slot = -1;    // slot with its saved value
    int scalar = -1;
    bool output = false, stored = false;
  };
  State& state(int node) { return nodes_[size_t(node)]; }

  // A node's op and operands; a negation used by one fma only becomes part of that fma.
  struct Operands {
    int count = 0;
    int node[3];
    bool minus_product = false, minus_c = false;
  };
  Operands operands_of(int node) const {
    const Node& n = graph_[node];
    Operands in{operands(n.op), {n.a, n.b, n.c}};
    if (n.op != Op::fma) return in;
    for (int i = 0; i < 3; ++i) {
      const Node& operand = graph_[in.node[i]];
      if (operand.op != Op::neg || nodes_[size_t(in.node[i])].readers > 1) continue;
      (i == 2 ? in.minus_c : in.minus_product) ^= true;
      in.node[i] = operand.a;
    }
    return in;
  }

  bool is_scalar(int node) const {
    const Node& n = graph_[node];
    return n.op == Op::constant || n.op == Op::parameter || (n.op == Op::input && sources_[size_t(n.index)] == Source::scalar);
  }
  bool is_memory_input(int node) const {
    const Node& n = graph_[node];
    return n.op == Op::input && sources_[size_t(n.index)] == Source::f32;
  }
  bool in_memory(int node) { return is_memory_input(node) || state(node).slot >= 0; }
  bool at_hand(int node) { return is_scalar(node) || in_memory(node); }

  void count_uses() {
    for (int node = 0; node < graph_.size(); ++node)
      for (int operand : {graph_[node].a, graph_[node].b, graph_[node].c})
        if (operand >= 0) ++state(operand).readers;
    for (int output : graph_.outputs) ++state(output).readers;
    std::vector<char> reached(nodes_.size(), 0);
    for (int output : graph_.outputs) {
      reached[size_t(output)] = 1;
      ++state(output).uses;
      state(output).output = true;
    }
    for (int node = graph_.size() - 1; node >= 0; --node) {
      if (!reached[size_t(node)]) continue;
      const Operands in = operands_of(node);
      for (int i = 0; i < in.count; ++i) {
        reached[size_t(in.node[i])] = 1;
        ++state(in.node[i]).uses;
      }
    }
    for (int node = 0; node < graph_.size(); ++node) state(node).need = need_of(node);
  }

  // The operand that needs the most slots is computed first and waits in one slot while the others are computed.
  int need_of(int node) {
    if (is_scalar(node) || is_memory_input(node)) return 0;
    const Operands in = operands_of(node);
    int needs[3] = {}, computed = 0;
    for (int i = 0; i < in.count; ++i)
      if (!is_scalar(in.node[i]) && !is_memory_input(in.node[i])) needs[computed++] = state(in.node[i]).need;
    for (int i = 1; i < computed; ++i)
      for (int j = i; j > 0 && needs[j - 1] < needs[j]; --j) std::swap(needs[j - 1], needs[j]);
    int most = 0;
    for (int i = 0; i < computed; ++i) most = std::max(most, needs[i] + i);
    return most;
  }

  // ---- operands

  uint16_t memory_of(int node) {
    const int slot = state(node).slot;
    return uint16_t(slot >= 0 ? program_.inputs + program_.outputs + slot : graph_[node].index);
  }
  uint16_t scalar_of(int node) {
    int& index = state(node).scalar;
    if (index < 0) {
      const Node& n = graph_[node];
      index = int(program_.scalars.size());
      program_.scalars.push_back({n.op == Op::constant    ? Scalar::From::constant
                                  : n.op == Op::parameter ? Scalar::From::parameter
                                                          : Scalar::From::input,
                                  n.index, n.value});
    }
    return uint16_t(index);
  }

  // Ends one use of a node; after the last use its slot is free again.
  void used(int node) {
    State& s = state(node);
    if (--s.uses == 0 && s.slot >= 0) {
      free_.push_back(s.slot);
      s.slot = -1;
    }
  }

  void save(int node) {
    if (state(node).slot >= 0) return;
    if (free_.empty()) free_.push_back(program_.slots++);
    state(node).slot = free_.back();
    free_.pop_back();
    emit({.action = Action::save, .operand = {memory_of(node)}});
  }

  // A function followed by a product with a memory operand is one instruction: x sigmoid(x), sigmoid(x) y.
  bool join_product(const Instruction& product) {
    if (program_.code.empty() || product.action != Action::compute || product.op != Op::mul) return false;
    Instruction& last = program_.code.back();
    if (last.action != Action::compute || last.op < Op::neg || last.op >= Op::add || last.times) return false;
    const int memory = product.mode[0] == Mode::memory ? 0 : 1;
    if (product.mode[memory] != Mode::memory || product.mode[1 - memory] != Mode::accumulator) return false;
    last.times = true;
    last.mode[1] = Mode::memory;
    last.operand[1] = product.operand[memory];
    return true;
  }
  void emit(const Instruction& instruction) {
    if (!join_product(instruction)) program_.code.push_back(instruction);
  }

  // ---- the walk

  // Computes the node's value into the accumulator, for `uses` uses right now; also saves it if there will be more.
  void to_accumulator(int node, int uses) {
    if (accumulator_ == node) return;
    const Node& n = graph_[node];
    if (is_scalar(node)) {
      emit({.action = Action::load_scalar, .operand = {scalar_of(node)}});
    } else if (in_memory(node)) {
      emit({.action = Action::load, .operand = {memory_of(node)}});
    } else if (n.op == Op::input) {
      emit({.action = sources_[size_t(n.index)] == Source::bf16 ? Action::load_bf16 : Action::load_f16, .operand = {uint16_t(n.index)}});
    } else {
      compute(node);
    }
    accumulator_ = node;
    // Store it now, unless the store has to wait.
    if (state(node).output && !state(node).stored && !stores_last_) store(node);
    if (state(node).uses > uses && !at_hand(node)) save(node);
  }

  // The same, into a slot.
  void to_slot(int node) {
    if (state(node).slot >= 0 || is_scalar(node)) return;
    to_accumulator(node, state(node).uses);
    save(node);
  }

  int count(const Operands& in, int node) const {
    int n = 0;
    for (int i = 0; i < in.count; ++i) n += in.node[i] == node;
    return n;
  }

  bool waits(const Operands& in, int i) { return !at_hand(in.node[i]) && in.node[i] != accumulator_; }
  // Whether an operand other than `computed` remains to be computed.
  bool waiting(const Operands& in, int computed) {
    for (int i = 0; i < in.count; ++i)
      if (in.node[i] != computed && waits(in, i)) return true;
    return false;
  }
  int next_operand(const Operands& in) {
    int next = -1;
    for (int i = 0; i < in.count; ++i) {
      if (!waits(in, i)) continue;
      const int o = in.node[i];
      const auto rank = [&](int node) { return std::pair(state(node).uses > count(in, node), state(node).need); };
      if (next < 0 || rank(o) > rank(next)) next = o;
    }
    return next;
  }

  void compute(int node) {
    const Operands in = operands_of(node);
    // Operands that are not available are computed one after the other, the last into the accumulator; those before it are saved, unless
    // computing the first one produced the others too. Values with other readers are saved in any case, so they go first; then those that
    // need the most slots.
    for (int next; (next = next_operand(in)) >= 0;) {
      to_accumulator(next, count(in, next));
      if (waiting(in, next))
        save(next);
      else
        break;
    }

    Instruction instruction{.action = Action::compute, .op = graph_[node].op, .minus_product = in.minus_product, .minus_c = in.minus_c};
    for (int attempt = 0;; ++attempt) {
      for (int i = 0; i < in.count; ++i) {
        const int o = in.node[i];
        instruction.mode[i] = o == accumulator_ ? Mode::accumulator : is_scalar(o) ? Mode::scalar : Mode::memory;
        instruction.operand[i] = o == accumulator_ ? uint16_t(0) : is_scalar(o) ? scalar_of(o) : memory_of(o);
      }
      if (attempt == 1 || has_form(instruction.op, instruction.mode[0], instruction.mode[1], instruction.mode[2])) break;
      to_accumulator(in.node[0], state(in.node[0]).uses);
    }
    for (int i = 0; i < in.count; ++i) used(in.node[i]);
    emit(instruction);
    accumulator_ = node;
  }

  // ---- outputs

  void store(int node) {
    state(node).stored = true;
    for (int i = 0; i < program_.outputs; ++i)
      if (graph_.outputs[size_t(i)] == node) {
        emit({.action = Action::store, .operand = {uint16_t(program_.inputs + i)}});
        used(node);
      }
  }

  const Graph& graph_;
  const std::span<const Source> sources_;
  const bool stores_last_;
  std::vector<State> nodes_;
  std::vector<int> free_;
  int accumulator_ = -1;  // the node whose value it holds
  Program program_;
};

}  // namespace

Program compile(const Graph& graph, std::span<const Source> sources, bool stores_last) {
  check(!graph.outputs.empty(), "elementwise", "the expression has no outputs");
  check(int(sources.size()) == graph.inputs, "elementwise", "the expression has ", graph.inputs, " inputs, got ", sources.size());
  check(graph.size() <= kMostNodes, "elementwise", "the expression has ", graph.size(), " nodes, at most ", kMostNodes,
        " fit in one kernel");
  return Compiler(graph, sources, stores_last).run();
}

}  // namespace weft::expr
