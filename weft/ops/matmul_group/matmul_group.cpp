#include "weft/ops/matmul_group/matmul_group.h"

#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr const char* kOp = MatmulGroupArgs::kOp;

}  // namespace

MatmulArgs MatmulGroupArgs::member(size_t i) const {
  const Member& m = members[i];
  return {.a = a, .b = m.b, .c = m.c, .bias = m.bias, .pre = {}, .transpose_b = m.transpose_b};
}

void matmul_group(Stream& stream, const MatmulGroupArgs& args) {
  const Contract contract(kOp, stream);
  contract.require(1 <= args.members.size() && args.members.size() <= MatmulGroupArgs::kMost, "there are ", args.members.size(),
                   " matmuls, expected 1 to ", MatmulGroupArgs::kMost);
  for (size_t i = 0; i < args.members.size(); ++i) {
    const MatmulGroupArgs::Member& m = args.members[i];
    check_contract(stream, args.member(i));
    contract.require(m.b.rank() == 2, "members[", i, "].b must have rank 2, got shape ", m.b.shape);
    contract.same_dtype("c", m.c, "the first c", args.members.front().c);
  }
  stream.device().kernels().matmul_group(stream, args);
}

Cost cost(const MatmulGroupArgs& args) {
  Cost sum{bytes_of(args.a), 0};
  for (size_t i = 0; i < args.members.size(); ++i) {
    const Cost one = cost(args.member(i));
    sum.bytes += one.bytes - bytes_of(args.a);
    sum.flops += one.flops;
  }
  return sum;
}

std::vector<Tensor> matmul_group(const Tensor& a, std::span<const RightOperand> right) {
  check(a.defined() && a.rank() >= 2, kOp, "a must be [..., M, K], got shape ", a.shape());
  MatmulGroupArgs args{.a = a.view(), .members = {}};
  std::vector<Tensor> results;
  for (const RightOperand& r : right) {
    check(r.b.defined() && r.b.rank() == 2, kOp, "b must have rank 2, got shape ", r.b.shape());
    Shape shape = a.shape();
    shape[shape.rank() - 1] = r.b.shape()[r.transpose_b ? 0 : 1];
    Tensor c = Tensor::empty(a.device(), shape, a.dtype());
    record(kOp, {&a, &r.b, &r.bias}, {&c}, NotDifferentiable{"matmul has one"});
    args.members.push_back({r.b.view(), c.mut_view(), r.bias.view(), r.transpose_b});
    results.push_back(std::move(c));
  }
  if (!results.empty()) matmul_group(a.device().stream(), args);
  return results;
}

}  // namespace weft
