// Attention of new tokens to a cache of keys and values, for generation: a prompt (Tq tokens) or one token (Tq = 1).
// The cache holds start[b] positions from before and, after them, those of the Tq queries. Query i of sequence b attends to
// the positions 0 .. start[b] + i; per head h, with key/value head h / (H / Hkv):
//
//   s_ij = scale q_i . k_j          o_i = sum over j <= start[b] + i of softmax(s_i)_j v_j
//
// Positions after the last query are never read. f32 or bf16; scores and sums are f32. No gradient.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct KvAttentionArgs {
  static constexpr const char* kOp = "kv_attention";
  static constexpr int64_t kMostHeadDim = 256;
  View q, k_cache, v_cache;  // 1 <= D <= 256; K heads of the caches, H a multiple of K
  View start;                // 0 <= start[b] <= S - T, else the stream raises a fault
  MutView o;
  float scale;

  static constexpr auto operands() {
    using namespace operand;
    using A = KvAttentionArgs;
    return std::array{in("q", &A::q, "B T H D", kFloats).columns(), in("k_cache", &A::k_cache, "B S K D", like("q")).columns(),
                      in("v_cache", &A::v_cache, "B S K D", like("q")).columns(), in("start", &A::start, "B", DType::i32),
                      out("o", &A::o, "B T H D", like("q")).columns()};
  }
};

// A checked launch into memory the caller owns.
void kv_attention(Stream& stream, const KvAttentionArgs& args);
// Counts a full cache: how much of it is used is known on the device alone.
inline Cost cost(const KvAttentionArgs& a) { return {operand_bytes(a), 4.0 * double(a.q.numel()) * double(a.k_cache.shape[1])}; }

// o [B, Tq, H, D], contiguous. scale = 0 means 1 / sqrt(D).
Tensor kv_attention(const Tensor& q, const Tensor& k_cache, const Tensor& v_cache, const Tensor& start, float scale = 0);

}  // namespace weft
