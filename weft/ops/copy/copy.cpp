#include "weft/ops/copy/copy.h"

#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"

namespace weft {

void copy(Stream& stream, const CopyArgs& args) {
  const DType from = args.from.dtype, to = args.to.dtype;
  check_operands(stream, args)
      .require(from == to || (is_float(from) && is_float(to)), "cannot cast ", from, " to ", to, ": casts are among f32, bf16 and f16");
  if (args.from.numel() == 0) return;
  stream.device().kernels().copy(stream, args);
}

void copy(const Tensor& from, const Tensor& to) {
  check(!should_record({&from, &to}), CopyArgs::kOp,
        "writing into a tensor has no gradient, but an operand requires one; use NoGrad or detach()");
  copy(to.device().stream(), {.from = from.view(), .to = to.mut_view()});
}

namespace {

// A contiguous copy with no history.
Tensor copied(const Tensor& x, DType dtype) {
  Tensor y = Tensor::empty(x.device(), x.shape(), dtype);
  copy(x.device().stream(), {.from = x.view(), .to = y.mut_view()});
  return y;
}

}  // namespace

Tensor contiguous(const Tensor& x) {
  check(x.defined(), "contiguous", "the tensor is undefined");
  if (x.contiguous()) return x;
  Tensor y = copied(x, x.dtype());
  record("contiguous", {&x}, {&y}, [](const Upstream& up) { return std::vector<Tensor>{up.grads[0]}; });
  return y;
}

Tensor cast(const Tensor& x, DType dtype) {
  check(x.defined(), "cast", "the tensor is undefined");
  if (x.dtype() == dtype) return x;
  Tensor y = copied(x, dtype);
  record("cast", {&x}, {&y}, [from = x.dtype()](const Upstream& up) { return std::vector<Tensor>{cast(up.grads[0].detach(), from)}; });
  return y;
}

Tensor slice(const Tensor& x, int axis, int64_t start, int64_t stop) {
  Tensor y = x.detach().part(axis, start, stop);
  record("slice", {&x}, {&y}, [shape = x.shape(), axis, start, stop](const Upstream& up) {
    const Tensor dy = up.grads[0].detach();
    Tensor dx = zeros(dy.device(), shape, dy.dtype());
    copy(dy, dx.part(axis, start, stop));
    return std::vector<Tensor>{dx};
  });
  return y;
}

}  // namespace weft
