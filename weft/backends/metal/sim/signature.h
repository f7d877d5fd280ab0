// The kernels of a text and their parameters, as the rewriter collects them.
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

using Attributes = std::vector<Attribute>;  // in source order

Attributes find_attributes(const Tokens& tokens);

// The argument of `name(argument)` among the items; null if there is none.
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
  bool optional = false;  // present depending on [[function_constant(...)]]
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

// Collects kernels and removes explicit instantiations and the word `kernel` from the tokens; attributes stay.
Kernels find_kernels(Tokens& tokens, const Attributes& attributes);

}  // namespace weft::metal::sim
