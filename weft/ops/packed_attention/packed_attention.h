// Causal attention of queries, keys and values that stand side by side in one tensor, as one projection writes them:
//
//   qkv [B, T, H + 2 Hkv, D]      q = heads 0 .. H - 1      k = the next Hkv      v = the last Hkv
//   o = causal_attention(q, k, v)                           dqkv: dq, dk and dv in the same layout
//
// The maths, the dtypes and the kernels are causal_attention's, which read and write the three parts in place: qkv is never
// copied apart, and its gradient is never concatenated.
#pragma once

#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct PackedAttentionArgs {
  static constexpr const char* kOp = "packed_attention";
  View qkv;          // [B, T, H + 2 Hkv, D], f32 or bf16, 1 <= D <= 256, unit stride over D
  MutView o;         // [B, T, H, D]
  MutView lse;       // [B, H, T], f32, contiguous
  int64_t kv_heads;  // Hkv; H is a multiple of it
  float scale;
  View documents = {};  // these three as causal_attention's
  int64_t window = 0;
  float soft_cap = 0;
};

struct PackedAttentionBackwardArgs {
  static constexpr const char* kOp = "packed_attention_backward";
  View dout;    // as o
  View qkv, o;  // of the forward
  View lse;
  MutView dqkv;  // as qkv
  int64_t kv_heads;
  float scale;
  View documents = {};
  int64_t window = 0;
  float soft_cap = 0;
};

// Checked launches into memory the caller owns.
void packed_attention(Stream& stream, const PackedAttentionArgs& args);
void packed_attention_backward(Stream& stream, const PackedAttentionBackwardArgs& args);
Cost cost(const PackedAttentionArgs& args);
Cost cost(const PackedAttentionBackwardArgs& args);

// o [B, T, H, D], contiguous. scale = 0 means 1 / sqrt(D).
Tensor packed_attention(const Tensor& qkv, int64_t kv_heads, float scale = 0);
Tensor packed_attention(const Tensor& qkv, int64_t kv_heads, const AttentionOptions& options);

}  // namespace weft
