#include "weft/nn/parameter.h"

namespace weft {

std::vector<Parameter> all_parameters(std::vector<ParameterGroup> groups) {
  std::vector<Parameter> all;
  for (ParameterGroup& group : groups)
    for (Parameter& p : group.parameters) {
      p.name = group.prefix + "." + p.name;
      all.push_back(std::move(p));
    }
  return all;
}

}  // namespace weft
