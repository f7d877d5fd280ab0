#include "weft/expr/graph.h"

#include <bit>
#include <cassert>

namespace weft::expr {
namespace {

struct OpInfo {
  const char* name;
  int operands;
};

// In the order of the enum.
constexpr OpInfo kInfo[] = {
    {"input", 0}, {"parameter", 0}, {"constant", 0},                                                 //
    {"neg", 1},   {"abs", 1},       {"exp", 1},      {"exp2", 1},       {"log", 1},   {"log2", 1},   //
    {"log1p", 1}, {"sqrt", 1},      {"rsqrt", 1},    {"reciprocal", 1}, {"sin", 1},   {"cos", 1},    //
    {"tan", 1},   {"tanh", 1},      {"sigmoid", 1},  {"erf", 1},        {"floor", 1}, {"round", 1},  //
    {"add", 2},   {"sub", 2},       {"mul", 2},      {"div", 2},        {"min", 2},   {"max", 2},    //
    {"pow", 2},   {"atan2", 2},     {"less", 2},     {"less_equal", 2}, {"equal", 2},                //
    {"fma", 3},   {"select", 3},
};
static_assert(sizeof(kInfo) / sizeof(kInfo[0]) == size_t(kOps), "one line per Op");

// Finaliser of splitmix64: every input bit affects every output bit.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t hash_node(const Node& n) {
  uint64_t h = mix(uint64_t(n.op) ^ (uint64_t(uint32_t(n.a)) << 8) ^ (uint64_t(uint32_t(n.b)) << 36));
  h = mix(h ^ (uint64_t(uint32_t(n.c)) | uint64_t(uint32_t(n.index)) << 32));
  return mix(h ^ std::bit_cast<uint32_t>(n.value));
}

}  // namespace

int operands(Op op) { return kInfo[int(op)].operands; }
const char* name(Op op) { return kInfo[int(op)].name; }

bool Node::operator==(const Node& other) const {
  return op == other.op && a == other.a && b == other.b && c == other.c && index == other.index &&
         std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(other.value);
}

int Graph::add(const Node& node) {
  assert(node.a < size() && node.b < size() && node.c < size());
  // At most half full, so that probes are short; a power of two, so that they wrap by a mask.
  if (nodes_.size() * 2 >= table_.size()) {
    table_.assign(table_.empty() ? 128 : table_.size() * 2, 0);
    nodes_.reserve(table_.size() / 2);
    for (int i = 0; i < size(); ++i) {
      size_t slot = hash_node(nodes_[size_t(i)]) & (table_.size() - 1);
      while (table_[slot] != 0) slot = (slot + 1) & (table_.size() - 1);
      table_[slot] = i + 1;
    }
  }
  const uint64_t hash = hash_node(node);
  size_t slot = hash & (table_.size() - 1);
  for (; table_[slot] != 0; slot = (slot + 1) & (table_.size() - 1)) {
    if (nodes_[size_t(table_[slot] - 1)] == node) return table_[slot] - 1;
  }
  nodes_.push_back(node);
  nodes_hash_ = mix(nodes_hash_ ^ hash);
  table_[slot] = size();
  return size() - 1;
}

bool Graph::operator==(const Graph& other) const {
  return inputs == other.inputs && parameters == other.parameters && outputs == other.outputs && nodes_ == other.nodes_;
}

uint64_t Graph::hash() const {
  uint64_t h = mix(nodes_hash_ ^ (uint64_t(uint32_t(inputs)) | uint64_t(uint32_t(parameters)) << 32));
  for (int output : outputs) h = mix(h ^ uint64_t(uint32_t(output)));
  return h;
}

}  // namespace weft::expr
