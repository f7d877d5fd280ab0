// Positions of tokens in their documents, from the documents' cumulative lengths (causal_attention.h):
//
//   positions[t] = t - documents[d]      documents[d] <= t < documents[d + 1]
//
// Only the device knows the lengths, so that a step can be captured and replayed. No gradient.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct DocumentPositionsArgs {
  static constexpr const char* kOp = "document_positions";
  View documents;  // 0 = documents[0] <= ... <= documents[N - 1] = T, else the stream raises a fault
  MutView positions;

  static constexpr auto operands() {
    using namespace operand;
    using A = DocumentPositionsArgs;
    return std::array{in("documents", &A::documents, "N", DType::i32), out("positions", &A::positions, "T", DType::i32)};
  }
};

void document_positions(Stream& stream, const DocumentPositionsArgs& args);
inline Cost cost(const DocumentPositionsArgs& a) { return {operand_bytes(a), 0}; }

// [T], i32.
Tensor document_positions(const Tensor& documents, int64_t T);

}  // namespace weft
