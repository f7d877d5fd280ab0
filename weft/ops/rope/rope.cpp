#include "weft/ops/rope/rope.h"

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {

void rope(Stream& stream, const RopeArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.require(args.cos.shape[1] <= args.x.shape[3] / 2, "the table turns ", args.cos.shape[1],
                   " pairs, more than there are in x of shape ", args.x.shape);
  if (args.start)
    contract.require(args.start.rank() == 1 && (args.start.shape[0] == 1 || args.start.shape[0] == args.x.shape[0]),
                     "start must hold one position, or one for each of ", args.x.shape[0], " sequences, got shape ", args.start.shape);
  if (args.positions) {
    contract.require(!args.start, "both start and positions are given, expected one of them");
    contract.require(args.x.shape[0] == 1, "positions need one sequence, got ", args.x.shape[0], " of x's shape ", args.x.shape);
  }
  stream.device().kernels().rope(stream, args);
}

Cost cost(const RopeArgs& a) {
  const double tokens = double(a.x.shape[1]), pairs = double(a.cos.shape[1]);
  return {operand_bytes(a) + 2 * tokens * pairs * double(sizeof(float)), 6.0 * pairs * double(a.x.shape[0] * a.x.shape[1] * a.x.shape[2])};
}

Tensor rope(const Tensor& x, const RopeTable& table, const Tensor& start, RopePairs pairs) {
  return rope(x, table, RopeOptions{.start = start, .pairs = pairs});
}

Tensor rope(const Tensor& x, const RopeTable& table, const RopeOptions& options) {
  const auto turned = [cos = Kept(table.cos), sin = Kept(table.sin), start = Kept(options.start), positions = Kept(options.positions),
                       pairs = options.pairs](const Tensor& from, bool inverse) {
    Device& device = from.device();
    Tensor to = Tensor::empty(device, from.shape(), from.dtype());
    rope(device.stream(), {.x = from.view(),
                           .cos = cos.view(),
                           .sin = sin.view(),
                           .start = start.view(),
                           .y = to.mut_view(),
                           .positions = positions.view(),
                           .pairs = pairs,
                           .inverse = inverse});
    return to;
  };
  Tensor y = turned(x, false);
  record("rope", {&x}, {&y}, [turned](const Upstream& up) { return std::vector<Tensor>{turned(contiguous(up.grads[0]), true)}; });
  return y;
}

}  // namespace weft
