#include "weft/ops/rope/rope.h"

#include "weft/ops/heads.h"
#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {

void rope(Stream& stream, const RopeArgs& args) {
  const Contract contract(RopeArgs::kOp, stream);
  contract.operand("x", args.x, {DType::f32, DType::bf16}).operand("y", args.y, {DType::f32, DType::bf16});
  require_heads(contract, "x", args.x);
  contract.shape("y", args.y, args.x.shape).same_dtype("y", args.y, "x", args.x);
  require_heads(contract, "y", args.y);
  contract.operand("cos", args.cos, {DType::f32}).operand("sin", args.sin, {DType::f32});
  contract.require(args.cos.rank() == 2, "cos must be [positions, rotary_dims / 2], got shape ", args.cos.shape);
  contract.shape("sin", args.sin, args.cos.shape);
  contract.require(args.cos.contiguous() && args.sin.contiguous(), "cos and sin must be contiguous");
  contract.require(args.cos.shape[1] <= args.x.shape[3] / 2, "the table turns ", args.cos.shape[1],
                   " pairs, more than there are in x of shape ", args.x.shape);
  contract.optional("start", args.start, {DType::i32});
  if (args.start)
    contract.require(
        args.start.rank() == 1 && (args.start.shape[0] == 1 || args.start.shape[0] == args.x.shape[0]) && args.start.contiguous(),
        "start must be contiguous and hold one position, or one for each of ", args.x.shape[0], " sequences, got shape ", args.start.shape);
  stream.device().kernels().rope(stream, args);
}

Cost cost(const RopeArgs& a) {
  const double tokens = double(a.x.shape[1]), pairs = double(a.cos.shape[1]);
  return {bytes_of(a.x) + bytes_of(a.y) + 2 * tokens * pairs * double(sizeof(float)),
          6.0 * pairs * double(a.x.shape[0] * a.x.shape[1] * a.x.shape[2])};
}

Tensor rope(const Tensor& x, const RopeTable& table, const Tensor& start, RopePairs pairs) {
  const auto turned = [cos = Kept(table.cos), sin = Kept(table.sin), start = Kept(start), pairs](const Tensor& from, bool inverse) {
    Device& device = from.device();
    Tensor to = Tensor::empty(device, from.shape(), from.dtype());
    rope(device.stream(), {.x = from.view(),
                           .cos = cos.view(),
                           .sin = sin.view(),
                           .start = start.view(),
                           .y = to.mut_view(),
                           .pairs = pairs,
                           .inverse = inverse});
    return to;
  };
  Tensor y = turned(x, false);
  record("rope", {&x}, {&y}, [turned](const Upstream& up) { return std::vector<Tensor>{turned(contiguous(up.grads[0]), true)}; });
  return y;
}

}  // namespace weft
