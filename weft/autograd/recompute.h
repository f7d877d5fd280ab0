// Activation recomputation (Chen et al., 2016): a part of a model keeps only what goes into it, and runs again when the
// walk back reaches it. Memory for time; the gradients have the same bits.
#pragma once

#include <functional>
#include <vector>

#include "weft/tensor/tensor.h"

namespace weft {

// f(inputs), which must give the same values whenever it is called. It may read parameters and other leaves; whatever
// else requires a gradient must be among `inputs` (an undefined one is passed on as it is).
using RecomputedFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
std::vector<Tensor> recompute(const RecomputedFunction& f, const std::vector<Tensor>& inputs);

}  // namespace weft
