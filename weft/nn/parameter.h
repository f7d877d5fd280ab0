// A parameter of a layer or a model: a named tensor and its role. Optimizers treat parameters by their role, never by their name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "weft/tensor/named_tensor.h"

namespace weft {

enum class ParameterRole {
  matrix,     // the weight of a layer inside the model
  experts,    // one tensor with the weight matrices of all experts of a layer
  vector,     // a bias, the gain of a norm
  embedding,  // a table with one row per token or position
  head,       // the matrix from the last hidden state to the logits
};

struct RoleRules {
  bool decays;         // gets weight decay (unless decay_all asks for it everywhere)
  bool orthogonalise;  // Muon makes its update orthogonal; else Muon updates it as AdamW does
};
constexpr RoleRules rules(ParameterRole role) {
  switch (role) {
    case ParameterRole::matrix: return {.decays = true, .orthogonalise = true};
    case ParameterRole::experts: return {.decays = true, .orthogonalise = false};
    case ParameterRole::vector: return {.decays = false, .orthogonalise = false};
    case ParameterRole::embedding: return {.decays = true, .orthogonalise = false};
    case ParameterRole::head: return {.decays = true, .orthogonalise = false};
  }
  return {};
}

// The role of a tensor of which nothing else is known.
constexpr ParameterRole role_of_rank(int rank) { return rank >= 2 ? ParameterRole::matrix : ParameterRole::vector; }

struct Parameter : NamedTensor {
  ParameterRole role;

  Parameter(std::string name, Tensor tensor, ParameterRole role) : NamedTensor{std::move(name), std::move(tensor)}, role(role) {}
  Parameter(std::string name, const Tensor& tensor) : Parameter(std::move(name), tensor, role_of_rank(tensor.rank())) {}
  Parameter(const Tensor& tensor) : Parameter("", tensor) {}  // an optimizer of a few tensors needs no names
};

// The parameters of several layers as one list: {{"fc", fc.parameters()}, ...} become "fc.weight", "fc.bias", ...
struct ParameterGroup {
  std::string prefix;
  std::vector<Parameter> parameters;
};
std::vector<Parameter> all_parameters(std::vector<ParameterGroup> groups);

}  // namespace weft
