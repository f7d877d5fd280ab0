// Several matmuls with one left operand, such as the projections to q, k and v, in one launch:
//
//   C_i = A op(B_i) + bias_i
//
// Each C_i has the bits of its own matmul (weft/ops/matmul has dtypes and the order of accumulation). On the CPU, where A has at most
// MatmulArgs::kSkinnyRows rows, threads that finish one matmul start on the next without waiting; elsewhere the matmuls follow
// each other. On CUDA the B_i and biases are prefetched before the previous launch on the stream has ended, so that launch must not write
// them. Not differentiable: use matmul where gradients are recorded.
#pragma once

#include <span>
#include <vector>

#include "weft/ops/contract.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct MatmulGroupArgs {
  static constexpr const char* kOp = "matmul_group";
  static constexpr size_t kMost = 4;  // q, k and v, or gate and up, and one to spare

  struct Member {
    View b;     // [K, N], or [N, K] when transposed
    MutView c;  // [..., M, N]; all of one dtype
    View bias;  // [N]; absent: none
    bool transpose_b = false;
  };
  View a;                       // [..., M, K]
  std::vector<Member> members;  // 1 to kMost

  MatmulArgs member(size_t i) const;  // as a matmul of its own
};

// A checked launch into memory the caller owns. No c overlaps a, a b or another c.
void matmul_group(Stream& stream, const MatmulGroupArgs& args);
Cost cost(const MatmulGroupArgs& args);

struct RightOperand {
  Tensor b, bias;  // bias may be undefined: none
  bool transpose_b = false;
};
// One c of a's dtype for each right operand.
std::vector<Tensor> matmul_group(const Tensor& a, std::span<const RightOperand> right);

}  // namespace weft
