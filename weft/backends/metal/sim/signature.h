// What the rewriter learns about the kernels of a text.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "weft/backends/metal/sim/tokens.h"

namespace weft::metal::sim {

// [[...]] at [begin, end): `items` are buffer(0), function_constant(has_bias), ...
struct Attribute {
  size_t begin, end;
  std::vector<std::string> items;
};

using Attributes = std::vector<Attribute>;  // in the order of the text

Attributes find_attributes(const Tokens& tokens);

// The argument of `name(argument)` among the items; null when there is none.
const std::string* find_item(const Attribute& attribute, std::string_view name, std::string& argument);

struct KernelParameter {
  enum class Kind { buffer, threadgroup, builtin };
  Kind kind = Kind::builtin;
  std::string name;
  std::string index;    // an expression
  std::string builtin;  // thread_position_in_grid, ...
  std::string file;
  int line = 0;
  bool reference = false;
  bool optional = false;  // [[function_constant(...)]] decides whether it is there
};

struct KernelDefinition {
  std::string name;       // in the source
  std::string qualifier;  // its namespace, "weft::"
  std::string most_threads = "0";
  bool is_template = false;
  std::vector<KernelParameter> parameters;
};

struct KernelInstance {
  std::string host_name;
  std::string callee;  // "weft::forward<float>"
  std::string definition;
};

struct Kernels {
  std::map<std::string, KernelDefinition> definitions;
  std::vector<KernelInstance> instances;
};

// Finds them and removes explicit instantiations and the word `kernel` from the tokens; attributes stay.
Kernels find_kernels(Tokens& tokens, const Attributes& attributes);

}  // namespace weft::metal::sim
