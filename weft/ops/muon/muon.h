// Muon: momentum made orthogonal (Jordan et al., 2024), for matrices, many in one call:
//
//   g = grad grad_scale            m = mu m + (1 - mu) g            d = mu m + (1 - mu) g    (Nesterov)
//   X = d / (|d|_F + 1e-7)         `iterations` times:  A = X X^T,  X = a X + (b A + c A A) X
//   p = p - lr (scale X + wd p)
//
// The quintic (a, b, c) = (3.4445, -4.7750, 2.0315) brings every singular value of X near 1. A tall matrix takes X^T X
// from the left instead, so A has the shorter side. All is f32; p is the parameter, or the f32 master copy of a bf16
// parameter, which is then p rounded. lr and grad_scale are device scalars. Made of matmul, elementwise and gradient_norm.
#pragma once

#include <vector>

#include "weft/ops/optimizer_operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

// Operands of one shape [R, C], contiguous, neither empty.
struct MuonTensor {
  MutView param;
  View grad;
  MutView m;
  MutView master;  // present exactly when param is bf16
  float weight_decay;
  float scale = 1;  // of the orthogonal direction; 0.2 sqrt(max(R, C)) gives steps the size of AdamW's

  static constexpr auto operands() { return momentum_operands<MuonTensor>("R C"); }
};

struct MuonArgs {
  static constexpr const char* kOp = "muon";
  std::vector<MuonTensor> tensors;
  View lr, grad_scale;  // grad_scale: such as gradient_norm's clip
  double momentum = 0.95;
  int iterations = 5;

  static constexpr auto operands() { return step_operands<MuonArgs>(); }
};

void muon(Stream& stream, const MuonArgs& args);
Cost cost(const MuonArgs& args);

}  // namespace weft
