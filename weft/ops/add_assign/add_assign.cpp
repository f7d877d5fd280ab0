#include "weft/ops/add_assign/add_assign.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {

void add_assign(Stream& stream, const AddAssignArgs& args) {
  const Contract contract(AddAssignArgs::kOp, stream);
  contract.operand("dst", args.dst, {DType::f32, DType::bf16}).operand("src", args.src, {DType::f32, DType::bf16});
  contract.shape("src", args.src, args.dst.shape).distinct("dst", args.dst);
  rows_or_scalar(args.dst, AddAssignArgs::kOp, "dst");
  rows_or_scalar(args.src, AddAssignArgs::kOp, "src");
  if (args.dst.numel() == 0) return;
  stream.device().kernels().add_assign(stream, args);
}

Cost cost(const AddAssignArgs& a) { return {2 * bytes_of(a.dst) + bytes_of(a.src), double(a.dst.numel())}; }

void add_assign(const Tensor& dst, const Tensor& src) {
  check(!should_record({&dst, &src}), AddAssignArgs::kOp, "adding in place has no gradient, but an operand requires one; use add() or NoGrad");
  add_assign(dst.device().stream(), {.dst = dst.mut_view(), .src = src.view()});
}

Tensor add(const Tensor& a, const Tensor& b) {
  check(a.defined() && b.defined(), "add", a.defined() ? "b" : "a", " is missing (an undefined tensor)");
  check(a.shape() == b.shape(), "add", "b has shape ", b.shape(), ", expected a's, ", a.shape());
  Tensor y = Tensor::empty(a.device(), a.shape(), a.dtype());
  copy(a.detach(), y);
  add_assign(y, contiguous(b.detach()));
  record("add", {&a, &b}, {&y}, [a_dtype = a.dtype(), b_dtype = b.dtype()](const Upstream& up) {
    const Tensor dy = up.grads[0].detach();
    return std::vector<Tensor>{up.wanted[0] ? cast(dy, a_dtype) : Tensor(), up.wanted[1] ? cast(dy, b_dtype) : Tensor()};
  });
  return y;
}

}  // namespace weft
