// The one order of sums on the CPU: what a position's logits are, whether its tokens came in a training batch, in a prompt, in chunks of a
// prompt or one at a time. Kernels may cut rows, columns, heads and whole segments into tasks, never the sums below.
// tests/unit/cpu_order.h computes the same, element by element; docs/numerics.md has it in words.
//
// A sum over k (dot products of matmul and attention), of one kind for each dtype and machine (bf16_dot.h):
//   chain   sum = fma(a[k], b[k], sum), k ascending: f32; bf16 if the CPU has no instruction for it
//   pairs   sum = fma(a[k + 1], b[k + 1], sum), then fma(a[k], b[k], sum), k = 0, 2, 4, ...: vdpbf16ps, which flushes subnormals
//   tiles   sum = sum + (even + odd) for blocks of 32 k, even and odd chains from 0: tdpbf16ps, which flushes subnormals
// Pairs and tiles end with zeros if K is no multiple. A matmul starts at beta C if alpha is 1, else at 0.
//
// Attention of a query to keys 0 .. n - 1 of its sequence:
//   keys in segments of kSegment from the first token on, a segment in tiles of kKeyTile keys; per tile, in order:
//     s_j = scale (q . k_j), the sum over D by its kind, scaled in f32; m' = max(m, s_j); base = m', or 0 if that is -inf
//     factor = exp(m - base);  p_j = exp(s_j - base);  l = l factor, then l = l + p_j, j ascending
//     o = o factor, then the sum over the tile's keys of p_j v_j, continued by its kind; pairs and tiles round p_j to bf16
//   segments are merged in order: m' = max(m, m_s), l = l exp(m - base) + l_s exp(m_s - base),
//     o = fma(o_s, exp(m_s - base), o exp(m - base))
//   o (1 / l) + 0: a result of zero is +0, so that keys a query does not attend to cannot leave a sign
// The exponentials are math.h's; p takes exp_of_negative, the factors exp.
//
// Sums along a row (norms, cross-entropy) are rows.h's, for one row as for many.
#pragma once

#include <cstdint>

namespace weft::cpu {

inline constexpr int64_t kKeyTile = 64;   // scores of 64 queries by 64 keys, 16 KiB, stay in L1
inline constexpr int64_t kSegment = 512;  // keys of a decode task: 256 KiB of a head's keys and values in f32, some 10 us

}  // namespace weft::cpu
