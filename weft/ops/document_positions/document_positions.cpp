#include "weft/ops/document_positions/document_positions.h"

namespace weft {

void document_positions(Stream& stream, const DocumentPositionsArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int64_t N = args.documents.numel(), T = args.positions.numel();
  contract.require(N >= 1, "documents is empty, expected the cumulative lengths 0, ..., ", T);
  contract.require(N <= INT32_MAX && T <= INT32_MAX, N, " documents of ", T, " tokens are more than 32 bits count");
  stream.device().kernels().document_positions(stream, args);
}

Tensor document_positions(const Tensor& documents, int64_t T) {
  check(documents.defined(), DocumentPositionsArgs::kOp, "documents is missing (an undefined tensor)");
  Tensor positions = Tensor::empty(documents.device(), {T}, DType::i32);
  document_positions(documents.device().stream(), {.documents = documents.view(), .positions = positions.mut_view()});
  return positions;
}

}  // namespace weft
