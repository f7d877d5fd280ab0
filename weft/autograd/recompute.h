// Activation recomputation (Chen et al., 2016): a function keeps only its inputs and runs again when backward() reaches it. It
// trades time for memory; the gradients have the same bits.
#pragma once

#include <functional>
#include <vector>

#include "weft/tensor/tensor.h"

namespace weft {

// f(inputs), which must return the same values on every call. It may read parameters and other leaves; everything else that
// requires a gradient must be among `inputs` (an undefined one is passed on).
using RecomputedFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
std::vector<Tensor> recompute(const RecomputedFunction& f, const std::vector<Tensor>& inputs);

}  // namespace weft
