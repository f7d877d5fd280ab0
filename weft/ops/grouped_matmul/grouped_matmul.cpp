#include "weft/ops/grouped_matmul/grouped_matmul.h"

#include <algorithm>

#include "weft/ops/copy/copy.h"
#include "weft/ops/route/route.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

void check_starts(const Contract& contract, const View& starts, int64_t E, int64_t P) {
  contract.require(starts.numel() == E + 1, "starts has shape ", starts.shape, ", expected one more element than there are matrices, ", E);
  contract.require(1 <= E && E <= RouteArgs::kMostExperts, "there are ", E, " matrices, expected 1 to ", RouteArgs::kMostExperts);
  contract.require(P <= INT32_MAX, P, " rows are more than 32 bits count");
}

}  // namespace

void grouped_matmul(Stream& stream, const GroupedMatmulArgs& args) {
  const Contract contract = check_operands(stream, args);
  const int64_t K = args.a.shape[1], N = args.c.shape[1], E = args.b.shape[0];
  contract.shape("b", args.b, args.transpose_b ? Shape{E, N, K} : Shape{E, K, N});
  check_starts(contract, args.starts, E, args.a.shape[0]);
  stream.device().kernels().grouped_matmul(stream, args);
}

void grouped_matmul_weights(Stream& stream, const GroupedMatmulWeightsArgs& args) {
  check_starts(check_operands(stream, args), args.starts, args.c.shape[0], args.a.shape[0]);
  stream.device().kernels().grouped_matmul_weights(stream, args);
}

void grouped_sums(Stream& stream, const GroupedSumsArgs& args) {
  check_starts(check_operands(stream, args), args.starts, args.y.shape[0], args.x.shape[0]);
  stream.device().kernels().grouped_sums(stream, args);
}

Cost cost(const GroupedMatmulArgs& a) {
  const double most = double(std::min(a.a.shape[0], a.b.shape[0])) / double(std::max<int64_t>(1, a.b.shape[0]));
  return {operand_bytes(a) + most * (bytes_of(a.b) + bytes_of(a.bias)), 2.0 * double(a.a.numel()) * double(a.c.shape[1])};
}

namespace {

struct Saved {
  Kept a, b, starts;
  bool transpose_b;

  Tensor gradient_a(const Tensor& dc) const {
    const Tensor da = Tensor::empty(dc.device(), a.shape(), a.dtype());
    grouped_matmul(dc.device().stream(), {dc.view(), b.view(), starts.view(), {}, da.mut_view(), !transpose_b});
    return da;
  }
  Tensor gradient_b(const Tensor& dc, const Tensor& sum) const {
    const bool accumulate = sum && sum.dtype() == DType::f32;
    const Tensor db = accumulate ? sum : Tensor::empty(dc.device(), b.shape());
    const View x = a.view(), y = dc.view();
    grouped_matmul_weights(dc.device().stream(), {transpose_b ? y : x, transpose_b ? x : y, starts.view(), db.mut_view(), accumulate});
    return db;
  }
  std::vector<Tensor> operator()(const Upstream& up) const {
    const Tensor dc = contiguous(up.grads[0].detach());
    std::vector<Tensor> grads(3);
    if (up.wanted[2]) {
      grads[2] = Tensor::empty(dc.device(), {b.shape()[0], dc.shape()[1]});
      grouped_sums(dc.device().stream(), {dc.view(), starts.view(), grads[2].mut_view()});
    }
    if (up.wanted[0]) grads[0] = gradient_a(dc);
    if (up.wanted[1]) grads[1] = gradient_b(dc, up.sum(1));
    return grads;
  }
};

}  // namespace

Tensor grouped_matmul(const Tensor& a, const Tensor& b, const Tensor& starts, bool transpose_b, const Tensor& bias) {
  constexpr const char* kOp = GroupedMatmulArgs::kOp;
  check(a.defined() && a.rank() == 2, kOp, "a must be [rows, K], got shape ", a.shape());
  check(b.defined() && b.rank() == 3, kOp, "b must have rank 3, got shape ", b.shape());
  Tensor c = Tensor::empty(a.device(), {a.shape()[0], b.shape()[transpose_b ? 1 : 2]}, a.dtype());
  grouped_matmul(a.device().stream(), {a.view(), b.view(), starts.view(), bias.view(), c.mut_view(), transpose_b});
  record(kOp, {&a, &b, &bias}, {&c}, Saved{a, b, starts, transpose_b});
  return c;
}

}  // namespace weft
