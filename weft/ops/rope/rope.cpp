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

namespace {

// The rotation of a call, kept for its backward.
struct Turn {
  Kept cos, sin, start, positions;
  RopePairs pairs;

  Turn(const RopeTable& table, const RopeOptions& options)
      : cos(table.cos), sin(table.sin), start(options.start), positions(options.positions), pairs(options.pairs) {}

  void operator()(const Tensor& from, const Tensor& to, bool inverse) const {
    rope(from.device().stream(), {.x = from.view(),
                                  .cos = cos.view(),
                                  .sin = sin.view(),
                                  .start = start.view(),
                                  .y = to.mut_view(),
                                  .positions = positions.view(),
                                  .pairs = pairs,
                                  .inverse = inverse});
  }
  Tensor operator()(const Tensor& from, bool inverse) const {
    const Tensor to = Tensor::empty(from.device(), from.shape(), from.dtype());
    (*this)(from, to, inverse);
    return to;
  }
};

// x itself if it is contiguous and nothing else refers to its memory, else a contiguous copy.
Tensor own_memory(const Tensor& x) {
  if (x.sole_owner() && x.contiguous()) return x;
  const Tensor own = Tensor::empty(x.device(), x.shape(), x.dtype());
  copy(x, own);
  return own;
}

}  // namespace

Tensor rope(const Tensor& x, const RopeTable& table, const RopeOptions& options) {
  const Turn turn(table, options);
  Tensor y = turn(x, false);
  record("rope", {&x}, {&y}, [turn](const Upstream& up) { return std::vector<Tensor>{turn(contiguous(up.grads[0]), true)}; });
  return y;
}

Tensor rope_in_place(const Tensor& x, int64_t heads, const RopeTable& table, const RopeOptions& options) {
  check(x.defined() && x.rank() == 4 && 1 <= heads && heads <= x.shape()[2], RopeArgs::kOp, "got ", heads, " heads of x of shape ",
        x.shape(), ", expected [batch, time, heads, head_dim]");
  const Turn turn(table, options);
  Tensor y = x.detach();
  turn(y.part(2, 0, heads), y.part(2, 0, heads), false);
  record("rope_in_place", {&x}, {&y}, [turn, heads](const Upstream& up) {
    const Tensor dx = own_memory(up.grads[0]), part = dx.part(2, 0, heads);
    turn(part, part, true);
    return std::vector<Tensor>{dx};
  });
  return y;
}

}  // namespace weft
