// The part of an attention layer before attention, for a decode step (one new token per sequence), in one or two kernels: residual sum,
// norm, the projections to q, k and v, RoPE, and the write of the new key and value into the cache.
//
//   h = x (+ delta)      n = h rstd w      rstd = 1 / sqrt(mean(h^2) + eps)
//   q = rope(n Wq^T + bq)      k = rope(n Wk^T + bk)      v = n Wv^T + bv
//
// q is returned; k and v are written to position start[b] of sequence b (weft/ops/kv_append), which is also the position in the RoPE table.
// With q_norm and k_norm each head of q and k is normed by rms_norm before RoPE, with the same eps. RoPE rotates element i of a head with
// element i + D / 2, over whole heads; without cos and sin it is left out. h, n, the projections, the normed heads and RoPE's results are
// each rounded to their dtype, so the results have the bits of rms_norm, matmul_group, rope and kv_append (docs/numerics.md, "One order:
// CUDA"). No gradient: training uses those ops.
//
// The previous launch on the stream may write x and delta only: the other operands are prefetched before it ends.
#pragma once

#include "weft/ops/kv_pages.h"
#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct NormHeadsArgs {
  static constexpr const char* kOp = "norm_heads";
  static constexpr UnsupportedOn kUnsupportedOn{.cpu = "use rms_norm, matmul_group, rope and kv_append",
                                                .metal = "use rms_norm, matmul_group, rope and kv_append"};
  View x, delta, w;                   // without a delta h = x
  View q_weight, k_weight, v_weight;  // [heads D, C]
  View q_bias = {}, k_bias = {}, v_bias = {};
  View q_norm = {}, k_norm = {};  // gains [D]
  View cos = {}, sin = {};        // P positions of D / 2 frequencies
  View start;                     // 0 <= start[b] < the cache's positions and P, else the stream raises a fault
  MutView h, q;
  MutView k_cache, v_cache;
  View pages = {};  // the page tables; sequences must not write to the same page
  float eps;

  // Whether R rows of C elements fit into the kernel's shared memory, and heads of D elements are supported.
  static bool takes(int64_t R, int64_t C, int64_t D);

  static constexpr auto operands() {
    using namespace operand;
    using A = NormHeadsArgs;
    return std::array{in("x", &A::x, "R C", DType::bf16).rows(),
                      in("delta", &A::delta, "R C", DType::bf16).rows().optional(),
                      in("w", &A::w, "C", like("x", DType::f32)),
                      in("q_weight", &A::q_weight, "N C", like("x")).rows(),
                      in("k_weight", &A::k_weight, "M C", like("x")).rows(),
                      in("v_weight", &A::v_weight, "M C", like("x")).rows(),
                      in("q_bias", &A::q_bias, "N", like("x")).optional(),
                      in("k_bias", &A::k_bias, "M", like("x")).optional(),
                      in("v_bias", &A::v_bias, "M", like("x")).optional(),
                      in("q_norm", &A::q_norm, "D", like("x", DType::f32)).optional(),
                      in("k_norm", &A::k_norm, "D", like("x", DType::f32)).with("q_norm"),
                      in("cos", &A::cos, "P F", DType::f32).optional().uncounted(),
                      in("sin", &A::sin, "P F", DType::f32).with("cos").uncounted(),
                      in("start", &A::start, "R", DType::i32),
                      out("h", &A::h, "R C", like("x")).rows().with("delta"),
                      out("q", &A::q, "R H D", like("x")).columns(),
                      out("k_cache", &A::k_cache, "S T K D", like("x")).columns().uncounted(),
                      out("v_cache", &A::v_cache, "S T K D", like("x")).columns().uncounted(),
                      in("pages", &A::pages, "R L", DType::i32).optional()};
  }
};

// Checks the operands and launches the op into the caller's memory.
void norm_heads(Stream& stream, const NormHeadsArgs& args);
Cost cost(const NormHeadsArgs& args);

}  // namespace weft
