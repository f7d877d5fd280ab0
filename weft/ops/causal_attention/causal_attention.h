// Causal scaled dot-product attention (Vaswani et al., 2017) without ever holding the T by T scores (Dao et al., 2022).
// Per sequence b and head h, with key/value head h / (H / Hkv):
//
//   s_ij = scale q_i . k_j      p_ij = exp(s_ij - lse_i)      lse_i = log sum over j <= i of exp(s_ij)
//   o_i  = sum over j <= i of p_ij v_j
//
//   delta_i = o_i . do_i        ds_ij = p_ij (do_i . v_j - delta_i)
//   dq_i = scale sum over j of ds_ij k_j       dk_j = scale sum over i of ds_ij q_i       dv_j = sum over i of p_ij do_i
//
// The backward recomputes p from lse. dk and dv sum over the H / Hkv heads that share a key head. All operands are
// indexed [B, T, H, D] with any strides over B, T and H and unit stride over D: pass a [B, H, T, D] tensor as
// permute({0, 2, 1, 3}). f32 or bf16; scores, p and sums are f32.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct CausalAttentionArgs {
  static constexpr const char* kOp = "causal_attention";
  static constexpr int64_t kMostHeadDim = 256;
  View q;       // [B, T, H, D], 1 <= D <= 256
  View k, v;    // [B, T, Hkv, D], H a multiple of Hkv
  MutView o;    // as q
  MutView lse;  // [B, H, T], f32, contiguous
  float scale;
};

struct CausalAttentionBackwardArgs {
  static constexpr const char* kOp = "causal_attention_backward";
  View dout;        // as q
  View q, k, v, o;  // of the forward
  View lse;
  MutView dq;      // as q
  MutView dk, dv;  // as k
  float scale;
};

// Checked launches into memory the caller owns.
void causal_attention(Stream& stream, const CausalAttentionArgs& args);
void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& args);
Cost cost(const CausalAttentionArgs& args);
Cost cost(const CausalAttentionBackwardArgs& args);

// o [B, T, H, D], contiguous. scale = 0 means 1 / sqrt(D).
Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, float scale = 0);

}  // namespace weft
