// Causal scaled dot-product attention (Vaswani et al., 2017) without ever holding the T by T scores (Dao et al., 2022).
// Per sequence b and head h, with key/value head h / (H / Hkv):
//
//   s_ij = scale q_i . k_j      p_ij = exp(s_ij - lse_i)      lse_i = log sum over j <= i of exp(s_ij)
//   o_i  = sum over j <= i of p_ij v_j
//
//   delta_i = o_i . do_i        ds_ij = p_ij (do_i . v_j - delta_i)
//   dq_i = scale sum over j of ds_ij k_j       dk_j = scale sum over i of ds_ij q_i       dv_j = sum over i of p_ij do_i
//
// Three options, each off by default:
//   documents  token t attends to the tokens of its own document only. Each document is computed exactly as a sequence of its own:
//              tiles of keys start at its first token, so o and lse have the bits of the document alone (docs/numerics.md).
//   window     i attends to j only if i - window < j <= i. Tiles of keys wholly outside are skipped; tile boundaries do not move.
//   soft_cap   s_ij = cap tanh(scale q_i . k_j / cap)         ds_ij = p_ij (do_i . v_j - delta_i) (1 - (s_ij / cap)^2)
//
// The backward recomputes p from lse. dk and dv sum over the H / Hkv heads that share a key head. All operands are
// indexed [B, T, H, D] with any strides over B, T and H and unit stride over D: pass a [B, H, T, D] tensor as
// permute({0, 2, 1, 3}). f32 or bf16; scores, p and sums are f32.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct CausalAttentionArgs {
  static constexpr const char* kOp = "causal_attention";
  static constexpr int64_t kMostHeadDim = 256;
  View q, k, v;  // 1 <= D <= 256; K heads of k and v, H a multiple of K
  MutView o, lse;
  float scale;
  // Cumulative lengths 0 = documents[0] <= documents[1] <= ... <= documents[n] = T, for B = 1; absent: one document a sequence. Equal
  // neighbours are empty documents: a tail that repeats T pads the array to a fixed size. Other values are a fault raised by the stream.
  View documents = {};
  int64_t window = 0;  // 0: none
  float soft_cap = 0;  // 0: none

  static constexpr auto operands() {
    using namespace operand;
    using A = CausalAttentionArgs;
    return std::array{in("q", &A::q, "B T H D", kFloats).columns(),   in("k", &A::k, "B T K D", like("q")).columns(),
                      in("v", &A::v, "B T K D", like("q")).columns(), out("o", &A::o, "B T H D", like("q")).columns(),
                      out("lse", &A::lse, "B H T", DType::f32),       in("documents", &A::documents, "N", DType::i32).optional()};
  }
};

struct CausalAttentionBackwardArgs {
  static constexpr const char* kOp = "causal_attention_backward";
  View dout, q, k, v, o, lse;
  MutView dq, dk, dv;
  float scale;
  View documents = {};  // these three as of the forward
  int64_t window = 0;
  float soft_cap = 0;

  static constexpr auto operands() {
    using namespace operand;
    using A = CausalAttentionBackwardArgs;
    return std::array{in("dout", &A::dout, "B T H D", kFloats).columns(),   in("q", &A::q, "B T H D", like("dout")).columns(),
                      in("k", &A::k, "B T K D", like("dout")).columns(),    in("v", &A::v, "B T K D", like("dout")).columns(),
                      in("o", &A::o, "B T H D", like("dout")).columns(),    in("lse", &A::lse, "B H T", DType::f32),
                      out("dq", &A::dq, "B T H D", like("dout")).columns(), out("dk", &A::dk, "B T K D", like("dout")).columns(),
                      out("dv", &A::dv, "B T K D", like("dout")).columns(), in("documents", &A::documents, "N", DType::i32).optional()};
  }
};

// Checked launches into memory the caller owns.
void causal_attention(Stream& stream, const CausalAttentionArgs& args);
void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& args);
// The host does not know the lengths of documents: their FLOPs count as those of one document.
Cost cost(const CausalAttentionArgs& args);
Cost cost(const CausalAttentionBackwardArgs& args);

struct AttentionOptions {
  float scale = 0;     // 0: 1 / sqrt(D)
  int64_t window = 0;  // 0: none
  float soft_cap = 0;  // 0: none
  Tensor documents = {};
};

// o [B, T, H, D], contiguous. scale = 0 means 1 / sqrt(D).
Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, float scale = 0);
Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);

}  // namespace weft
