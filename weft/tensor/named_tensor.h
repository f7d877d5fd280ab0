// A tensor and its name: a parameter of a model (named as in Hugging Face's transformers), the state of an optimizer, an entry
// of a file.
#pragma once

#include <string>

#include "weft/tensor/tensor.h"

namespace weft {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace weft
