// Greedy sampling on the device: the id of the largest logit of each row, the lowest id among equals. The host's sampler
// (weft/generate/sampler.h) chooses the same ids.
//
//   ids[r] = min { i : logits[r, i] = max_j logits[r, j] }
//
// A row without a finite maximum gets a negative value: -1 - i if logit i is the first that is NaN or +inf, -1 - V if all are -inf. No
// gradient.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct SampleArgs {
  static constexpr const char* kOp = "sample";
  static constexpr UnsupportedOn kUnsupportedOn{.cpu = "the host's sampler reads the logits in place",
                                                .metal = "the host's sampler reads the logits in place"};
  View logits;
  MutView ids;

  static constexpr auto operands() {
    using namespace operand;
    using A = SampleArgs;
    return std::array{in("logits", &A::logits, "R V", DType::f32).rows(), out("ids", &A::ids, "R", DType::i32)};
  }
};

// Checks the operands and launches the op into the caller's memory.
void sample(Stream& stream, const SampleArgs& args);
// Returns ids [R], i32, for logits [R, V].
Tensor sample(const Tensor& logits);
inline Cost cost(const SampleArgs& a) { return {operand_bytes(a), 0}; }

}  // namespace weft
