#include "weft/ops/norm_heads/norm_heads.h"

#include <algorithm>

#include "weft/ops/matmul/held_rows.h"

namespace weft {
namespace {

constexpr int64_t kMostRows = 8, kMostHeadDim = 256;

}  // namespace

bool NormHeadsArgs::takes(int64_t R, int64_t C, int64_t D) {
  return normed_rows_take(R, C) && R <= kMostRows && D > 0 && D % 16 == 0 && D <= kMostHeadDim;
}

Cost cost(const NormHeadsArgs& a) {
  const double kv = bytes_of(a.q) * double(a.k_cache.shape[2]) / double(std::max<int64_t>(1, a.q.shape[1]));
  return {operand_bytes(a) + 2 * kv, 2.0 * double(a.x.numel()) * double(a.q_weight.shape[0] + 2 * a.k_weight.shape[0])};
}

void norm_heads(Stream& stream, const NormHeadsArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int64_t R = args.x.shape[0], C = args.x.shape[1], H = args.q.shape[1], D = args.q.shape[2], K = args.k_cache.shape[2];
  contract.require(NormHeadsArgs::takes(R, C, D), "takes ", normed_rows_limits(kMostRows), " and heads of a multiple of 16 up to ",
                   kMostHeadDim, ", got ", R, " of ", C, " and heads of ", D);
  contract.require(args.q_weight.shape[0] == H * D, "q_weight has ", args.q_weight.shape[0], " rows for ", H, " heads of ", D);
  contract.require(args.k_weight.shape[0] == K * D, "k_weight has ", args.k_weight.shape[0], " rows for ", K, " heads of ", D);
  contract.require(!args.cos || 2 * args.cos.shape[1] == D, "cos has ", args.cos ? args.cos.shape[1] : 0, " frequencies, expected half of ",
                   D);
  contract.require(args.eps >= 0, "eps is ", args.eps, ", expected zero or more");
  check_pages(contract, args.k_cache, args.pages, R);
  stream.device().kernels().norm_heads(stream, args);
}

}  // namespace weft
