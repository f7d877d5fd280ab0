// The first half of a gated MLP for the few rows of a decode step, in one kernel: residual, norm, both projections and the activation.
//
//   h = x (+ delta)      n = h rstd w      y = silu(n Wg^T + bg) (n Wu^T + bu)      rstd = 1 / sqrt(mean(h^2) + eps)
//
// h, n, both projections and y are each rounded to their dtype, as rms_norm, matmul_group and the elementwise product would: the results
// have their bits (docs/numerics.md, "One order: CUDA"). No gradient: training has those ops.
//
// The launch before this one on the stream may write x and delta, nothing else: the other operands are prefetched before it ends.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct NormGatedArgs {
  static constexpr const char* kOp = "norm_gated";
  static constexpr UnsupportedOn kUnsupportedOn{.cpu = "rms_norm, matmul_group and the activation follow each other without a gap",
                                                .metal = "rms_norm, matmul_group and the activation follow each other without a gap"};
  static constexpr int64_t kMostRows = 8;
  View x, delta, w;  // without a delta h = x
  View gate, up;     // the weights, as linear layers store them
  View gate_bias = {}, up_bias = {};
  MutView h, y;
  float eps;

  // Whether the kernel supports R rows of C elements, which it holds in shared memory.
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

// A checked launch into memory the caller owns.
void norm_gated(Stream& stream, const NormGatedArgs& args);
inline Cost cost(const NormGatedArgs& a) { return {operand_bytes(a), 4.0 * double(a.y.numel()) * double(a.x.shape[1])}; }

}  // namespace weft
