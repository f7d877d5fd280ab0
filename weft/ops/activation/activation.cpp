#include "weft/ops/activation/activation.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16};

// Operations per element: the exponential counts as twelve.
double operations(Activation kind) {
  switch (kind) {
    case Activation::none: return 0;
    case Activation::relu: return 1;
    case Activation::silu: return 15;
    case Activation::gelu_tanh: return 19;
  }
  return 0;
}

void check_like(const Contract& contract, const char* name, const View& view, const View& x) {
  contract.operand(name, view, kFloats).shape(name, view, x.shape).same_dtype(name, view, "x", x);
  as_rows(view, contract.op(), name);
}

void check_x(const Contract& contract, const View& x, Activation kind) {
  contract.operand("x", x, kFloats).require(x.rank() >= 1, "x must have at least one axis");
  contract.require(known(kind), "kind is ", int(kind), ", which is no activation");
  as_rows(x, contract.op(), "x");
}

}  // namespace

void activation(Stream& stream, const ActivationArgs& args) {
  const Contract contract(ActivationArgs::kOp, stream);
  check_x(contract, args.x, args.kind);
  check_like(contract, "y", args.y, args.x);
  stream.device().kernels().activation(stream, args);
}

void activation_backward(Stream& stream, const ActivationBackwardArgs& args) {
  const Contract contract(ActivationBackwardArgs::kOp, stream);
  check_x(contract, args.x, args.kind);
  check_like(contract, "dy", args.dy, args.x);
  check_like(contract, "dx", args.dx, args.x);
  stream.device().kernels().activation_backward(stream, args);
}

Cost cost(const ActivationArgs& a) { return {bytes_of(a.x) + bytes_of(a.y), operations(a.kind) * double(a.x.numel())}; }

Cost cost(const ActivationBackwardArgs& a) {
  return {bytes_of(a.x) + bytes_of(a.dy) + bytes_of(a.dx), (operations(a.kind) + 5) * double(a.x.numel())};
}

Tensor activation(const Tensor& x, Activation kind) {
  Device& device = x.device();
  Tensor y = Tensor::empty(device, x.shape(), x.dtype());
  activation(device.stream(), {.x = x.view(), .y = y.mut_view(), .kind = kind});
  record("activation", {&x}, {&y}, [x = x.detach(), kind](const Upstream& up) {
    return std::vector<Tensor>{activation_backward(x, contiguous(up.grads[0]), kind)};
  });
  return y;
}

Tensor activation_backward(const Tensor& x, const Tensor& dy, Activation kind) {
  Device& device = x.device();
  Tensor dx = Tensor::empty(device, x.shape(), x.dtype());
  activation_backward(device.stream(), {.x = x.view(), .dy = dy.view(), .dx = dx.mut_view(), .kind = kind});
  return dx;
}

}  // namespace weft
