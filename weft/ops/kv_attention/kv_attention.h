// Attention of new tokens to a cache of keys and values, for generation: a prompt (Tq tokens) or one token (Tq = 1).
// The cache holds start[b] positions from before and, after them, those of the Tq queries. Query i of sequence b attends to
// the positions 0 .. start[b] + i; per head h, with key/value head h / (H / Hkv):
//
//   s_ij = scale q_i . k_j          o_i = sum over j <= start[b] + i of softmax(s_i)_j v_j
//
// A window masks j <= start[b] + i - window; with a soft cap s_ij = cap tanh(scale q_i . k_j / cap), as in causal_attention.
// The cache may be paged (weft/ops/kv_pages.h). Tiles and segments of keys are counted in positions, so paging does not change the bits.
// lse, if given, is log sum over j of exp(s_ij), with the bits of causal_attention.
// Positions after the last query are never read. f32 or bf16; scores and sums are f32. No gradient.
#pragma once

#include "weft/ops/kv_pages.h"
#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct KvAttentionArgs {
  static constexpr const char* kOp = "kv_attention";
  static constexpr int64_t kMostHeadDim = 256;
  View q, k_cache, v_cache;  // 1 <= D <= 256; K heads of the caches, H a multiple of K
  View start;                // 0 <= start[b] <= capacity - T, else the stream raises a fault
  MutView o;
  float scale;
  int64_t window = 0;  // 0: none
  float soft_cap = 0;  // 0: none
  View pages = {};
  MutView lse = {};

  static constexpr auto operands() {
    using namespace operand;
    using A = KvAttentionArgs;
    return std::array{in("q", &A::q, "B T H D", kFloats).columns(),
                      in("k_cache", &A::k_cache, "N S K D", like("q")).columns(),
                      in("v_cache", &A::v_cache, "N S K D", like("q")).columns(),
                      in("start", &A::start, "B", DType::i32),
                      out("o", &A::o, "B T H D", like("q")).columns(),
                      in("pages", &A::pages, "B P", DType::i32).optional(),
                      out("lse", &A::lse, "B H T", DType::f32).optional()};
  }
};

// A checked launch into memory the caller owns.
void kv_attention(Stream& stream, const KvAttentionArgs& args);
// Counts a full cache: how much of it is used is known on the device alone.
Cost cost(const KvAttentionArgs& args);

struct KvAttentionOptions {
  float scale = 0;     // 0: 1 / sqrt(D)
  int64_t window = 0;  // 0: none
  float soft_cap = 0;  // 0: none
  Tensor pages = {};
};

// o [B, Tq, H, D], contiguous.
Tensor kv_attention(const Tensor& q, const Tensor& k_cache, const Tensor& v_cache, const Tensor& start,
                    const KvAttentionOptions& options = {});

}  // namespace weft
