#include "weft/ops/norm_gated/norm_gated.h"

#include "weft/ops/matmul/held_rows.h"

namespace weft {

bool NormGatedArgs::takes(int64_t R, int64_t C) { return normed_rows_take(R, C) && R <= kMostRows; }

void norm_gated(Stream& stream, const NormGatedArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int64_t R = args.x.shape[0], C = args.x.shape[1];
  contract.require(NormGatedArgs::takes(R, C), "takes ", normed_rows_limits(NormGatedArgs::kMostRows), ", got ", R, " of ", C);
  contract.require(args.eps >= 0, "eps is ", args.eps, ", expected zero or more");
  stream.device().kernels().norm_gated(stream, args);
}

}  // namespace weft
