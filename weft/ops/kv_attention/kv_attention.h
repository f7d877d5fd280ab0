// Attention of new tokens to a cache of keys and values, for generation: a prompt (Tq tokens) or one token (Tq = 1).
// The cache holds start[b] positions from before and, after them, those of the Tq queries. Query i of sequence b attends to
// the positions 0 .. start[b] + i; per head h, with key/value head h / (H / Hkv):
//
//   s_ij = scale q_i . k_j          o_i = sum over j <= start[b] + i of softmax(s_i)_j v_j
//
// Positions after the last query are never read. f32 or bf16; scores and sums are f32. No gradient.
#pragma once

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct KvAttentionArgs {
  static constexpr const char* kOp = "kv_attention";
  static constexpr int64_t kMostHeadDim = 256;
  View q;                 // [B, Tq, H, D], 1 <= D <= 256; any strides over B, Tq, H, unit stride over D
  View k_cache, v_cache;  // [B, capacity, Hkv, D], H a multiple of Hkv; strides likewise
  View start;             // [B], i32, contiguous: 0 <= start[b] <= capacity - Tq, else the stream raises a fault
  MutView o;              // as q
  float scale;
};

// A checked launch into memory the caller owns.
void kv_attention(Stream& stream, const KvAttentionArgs& args);
// Counts a full cache: how much of it is used is known on the device alone.
Cost cost(const KvAttentionArgs& args);

// o [B, Tq, H, D], contiguous. scale = 0 means 1 / sqrt(D).
Tensor kv_attention(const Tensor& q, const Tensor& k_cache, const Tensor& v_cache, const Tensor& start, float scale = 0);

}  // namespace weft
