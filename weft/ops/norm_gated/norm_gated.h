// The first half of a gated MLP for the few rows of a decode step, in one kernel: residual sum, norm, both projections and the activation.
//
//   h = x (+ delta)      n = h rstd w      y = silu(n Wg^T + bg) (n Wu^T + bu)      rstd = 1 / sqrt(mean(h^2) + eps)
//
// h, n, both projections and y are each rounded to their dtype, so the results have the bits of rms_norm, matmul_group and the elementwise
// product (docs/numerics.md, "One order: CUDA"). No gradient: training uses those ops.
//
// The previous launch on the stream may write x and delta only: the other operands are prefetched before it ends.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct NormGatedArgs {
  static constexpr const char* kOp = "norm_gated";
  static constexpr UnsupportedOn kUnsupportedOn{.cpu = "use rms_norm, matmul_group and the activation",
                                                .metal = "use rms_norm, matmul_group and the activation"};
  static constexpr int64_t kMostRows = 8;
  View x, delta, w;  // without a delta h = x
  View gate, up;     // weights [F, C]
  View gate_bias = {}, up_bias = {};
  MutView h, y;
  float eps;

  // Whether R rows of C elements fit into the kernel's shared memory.
  static bool takes(int64_t R, int64_t C);

  static constexpr auto operands() {
    using namespace operand;
    using A = NormGatedArgs;
    return std::array{in("x", &A::x, "R C", DType::bf16).rows(),
                      in("delta", &A::delta, "R C", DType::bf16).rows().optional(),
                      in("w", &A::w, "C", like("x", DType::f32)),
                      in("gate", &A::gate, "F C", like("x")).rows(),
                      in("up", &A::up, "F C", like("x")).rows(),
                      in("gate_bias", &A::gate_bias, "F", like("x")).optional(),
                      in("up_bias", &A::up_bias, "F", like("x")).optional(),
                      out("h", &A::h, "R C", like("x")).rows().with("delta"),
                      out("y", &A::y, "R F", like("x")).rows()};
  }
};

// Checks the operands and launches the op into the caller's memory.
void norm_gated(Stream& stream, const NormGatedArgs& args);
inline Cost cost(const NormGatedArgs& a) { return {operand_bytes(a), 4.0 * double(a.y.numel()) * double(a.x.shape[1])}; }

}  // namespace weft
