// The next token of each row of logits, chosen where the logits are: greedily, the largest logit, of several the one with the lowest id, as
// weft/generate/sampler.h does on the host.
//
//   ids[r] = min { i : logits[r, i] = max_j logits[r, j] }
//
// A row without a largest number gets no id: -1 - i if the logit i is NaN or +inf, the first of them; -1 - V if all are -inf. No gradient.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct SampleArgs {
  static constexpr const char* kOp = "sample";
  static constexpr UnsupportedOn kUnsupportedOn{.cpu = "the sampler reads the logits where they are",
                                                .metal = "the sampler reads the logits where they are"};
  View logits;
  MutView ids;

  static constexpr auto operands() {
    using namespace operand;
    using A = SampleArgs;
    return std::array{in("logits", &A::logits, "R V", DType::f32).rows(), out("ids", &A::ids, "R", DType::i32)};
  }
};

// A checked launch into memory the caller owns.
void sample(Stream& stream, const SampleArgs& args);
// ids [R], i32, of logits [R, V].
Tensor sample(const Tensor& logits);
inline Cost cost(const SampleArgs& a) { return {operand_bytes(a), 0}; }

}  // namespace weft
