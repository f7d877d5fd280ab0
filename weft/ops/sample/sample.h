// The greedy next token of each row of logits, chosen on the device: the largest logit, the lowest id among equals. The host's sampler
// (weft/generate/sampler.h) chooses the same.
//
//   ids[r] = min { i : logits[r, i] = max_j logits[r, j] }
//
// A row without a finite maximum gets no id: -1 - i if logit i is the first that is NaN or +inf, -1 - V if all are -inf. No gradient.
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
