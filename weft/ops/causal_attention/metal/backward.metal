#include <metal_stdlib>

#include "weft/ops/causal_attention/metal/documents.metal.h"
#include "weft/ops/causal_attention/params.h"
#include "weft/tile/metal/blocks.metal.h"
#include "weft/tile/metal/mma.metal.h"
#include "weft/tile/metal/scalar.metal.h"
#include "weft/tile/metal/tile.metal.h"

using namespace metal;

namespace weft {

constant int kMatricesOfD [[function_constant(0)]];  // ceil(D / 8)
constant bool kAligned [[function_constant(1)]];     // q, k, v, dout may be read in fours
constant bool kHasDocuments [[function_constant(2)]];
constant bool kHasWindow [[function_constant(3)]];
constant bool kHasSoftCap [[function_constant(4)]];

// Equation: delta_i = o_i . do_i.
// Layout:   o, dout [B, T, H, D] with any strides over B, T, H; delta [B, H, T].
// Grid:     ceil(B H T / 8) groups, a simdgroup to a row: lanes over D, then a butterfly.
// Requires: 256 threads.
// Traffic:  one read of o and dout, one write of delta.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void row_products(device const T* o [[buffer(0)]], device const T* dout [[buffer(1)]], device float* delta [[buffer(2)]],
                         constant AttentionBackwardParams& p [[buffer(3)]], uint group [[threadgroup_position_in_grid]],
                         uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  const int64_t row = int64_t(group) * kSimdgroups + simd, heads = int64_t(p.B) * p.H;
  if (row >= heads * p.T) return;
  const int64_t b = row / p.T / p.H, h = row / p.T % p.H, t = row % p.T;
  device const T *x = o + row_at(p.o, b, t, h), *y = dout + row_at(p.dout, b, t, h);
  float sum = 0.0f;
  for (int d = int(lane); d < p.D; d += 32) sum = fma(to_float(x[d]), to_float(y[d]), sum);
  for (ushort distance = 16; distance > 0; distance /= 2) sum += simd_shuffle_xor(sum, distance);
  if (lane == 0) delta[row] = sum;
}

// Scores and dP of eight rows (queries or keys) with blocks [first, last) of a tile of the other side, in one array.
template <int kMatrices, int kBlocks>
inline void add_scores_and_dp(thread Matrix (&s)[kBlocks], thread Matrix (&rows)[kMatrices], thread Matrix (&others)[kMatrices], int count,
                              threadgroup const float* row_tile, threadgroup const float* other_tile, int stride, int first, int last) {
  WEFT_UNROLL
  for (int f = 0; f < kMatrices; ++f) {
    if (f >= count) break;
    WEFT_UNROLL
    for (int j = 0; j < kBlocks / 2; ++j) {
      if (j < first || j >= last) continue;
      multiply_add(s[j], rows[f], transposed_at(row_tile + 8 * j * stride + 8 * f, stride));
      multiply_add(s[kBlocks / 2 + j], others[f], transposed_at(other_tile + 8 * j * stride + 8 * f, stride));
    }
  }
}

// Above 0 where a causal mask leaves an element of keys by queries out: a query before its key, by `least` at row 0, or past the `queries`.
inline Matrix outside_transposed(Positions at, int least, int queries) {
  Matrix outside;
  for (int e = 0; e < 2; ++e) {
    const float c = at.column.thread_elements()[e];
    outside.thread_elements()[e] = int(c) < queries ? float(least) - c + at.row.thread_elements()[e] : 1.0f;
  }
  return outside;
}

// s becomes P = exp(scale s - lse) and dp becomes dS = P (dp - delta), both zero at elements that are outside. With a soft cap (0: none)
// and c = tanh(scale s / cap): P = exp(cap c - lse), and dS is multiplied by 1 - c^2.
inline void differentiate(thread Matrix& s, thread Matrix& dp, Matrix lse, Matrix delta, Matrix outside, float scale, float cap) {
  for (int e = 0; e < 2; ++e) {
    const bool in = outside.thread_elements()[e] <= 0.0f;
    float score = scale * s.thread_elements()[e], slope = 1.0f;
    if (cap > 0.0f) {
      const float c = precise::tanh(score / cap);
      score = cap * c;
      slope = 1.0f - c * c;
    }
    const float x = in ? precise::exp(score - lse.thread_elements()[e]) : 0.0f;
    float ds = x * (dp.thread_elements()[e] - delta.thread_elements()[e]);
    if (cap > 0.0f) ds *= slope;
    dp.thread_elements()[e] = in ? ds : 0.0f;
    s.thread_elements()[e] = x;
  }
}

// Equation: dq_i = scale sum over j <= i of ds_ij k_j; a window leaves out j <= i - window. A document is a sequence of its own.
// Layout:   q, dout, dq [B, T, H, D], k, v [B, T, Hkv, D] with any strides over B, T, H; lse, delta [B, H, T]; documents [n + 1], checked.
// Grid:     (ceil(T / queries) or slots of documents, H, B) groups of eight simdgroups: 64 / kSlices queries. Keys ascend in tiles
//           of kKeys; within a tile every sum takes eight keys at a time, in order.
// Requires: 256 threads; D <= kD = 64 kSlices. Threadgroup memory, floats: 2 kKeys (kD + 4) for keys and values, 1024 of
//           tables and, where there are slices, 128 kKeys of parts: 21, 29 and 25 KiB for kD = 64, 128, 256.
// Traffic:  q, dout, lse, delta, dq once; k and v once per 64 / kSlices queries, tiles outside of window and document not at all. Every
//           multiply-add is in a matrix multiplication.
template <class T, int kD, int kSlices, int kKeys>
[[max_total_threads_per_threadgroup(256)]]
kernel void query_gradient(device const T* q [[buffer(0)]], device const T* k [[buffer(1)]], device const T* v [[buffer(2)]],
                           device const T* dout [[buffer(3)]], device const float* lse [[buffer(4)]],
                           device const float* delta [[buffer(5)]], device T* dq [[buffer(6)]],
                           constant AttentionBackwardParams& p [[buffer(7)]],
                           device const int* documents [[buffer(8), function_constant(kHasDocuments)]],
                           uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]],
                           uint thread_index [[thread_index_in_threadgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                           uint lane [[thread_index_in_simdgroup]]) {
  constexpr int kRow = kD + 4, kSpan = kD / kSlices, kMatrices = kSpan / 8, kQueries = 64 / kSlices, kBlocks = kKeys / 8;
  threadgroup float tiles[2 * kKeys * kRow], tables[kSimdgroups * 128], parts[kSlices > 1 ? kSimdgroups * 2 * kBlocks * 64 : 1];
  threadgroup float *keys = tiles, *values = tiles + kKeys * kRow, *patch = tiles + simd * kPatch, *table = tables + simd * 128;
  const int b = int(group.z), h = int(group.y), hkv = h / p.group, slot = int(groups.x - 1 - group.x);  // the longest first
  const DocumentTile tile = kHasDocuments ? document_tile(documents, p.documents, kQueries, slot) : DocumentTile{0, p.T, slot * kQueries};
  if (kHasDocuments && tile.at >= tile.tokens) return;
  const int t0 = tile.first, m0 = tile.at, tokens = tile.tokens;
  const int slice = int(simd) % kSlices, query = m0 + int(simd) / kSlices * 8, rows = tokens - query, row = int(lane) / 4;
  const int hidden = kHasWindow ? query - p.window + 1 : 0;  // keys before the first row's window
  const float cap = kHasSoftCap ? p.soft_cap : 0.0f;
  const int column = slice * kSpan, count = clamp(kMatricesOfD - slice * kMatrices, 0, kMatrices);
  Positions at = positions(patch, lane);
  Matrix queries[kMatrices], gradients[kMatrices], sums[kMatrices];
  clear(sums);
  load_rows(queries, count, head_rows(q, p.q, b, t0 + query, h, column, rows, p.D, kAligned), patch, lane);
  load_rows(gradients, count, head_rows(dout, p.dout, b, t0 + query, h, column, rows, p.D, kAligned), patch, lane);
  const int64_t statistic = (int64_t(b) * p.H + h) * p.T + t0 + query + row;
  const bool reads = lane % 4 == 0 && row < rows;  // for the four lanes of its row
  const ushort reader = ushort(4 * row);
  RowPair known =
      spread_rows(simd_shuffle(reads ? lse[statistic] : 0.0f, reader), simd_shuffle(reads ? delta[statistic] : 0.0f, reader), table, lane);

  const int first = kHasWindow ? max(0, m0 - p.window + 1) / kKeys * kKeys : 0;
  for (int n0 = first; n0 < min(tokens, m0 + kQueries); n0 += kKeys) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stage(keys, kRow, kKeys, 8 * kMatricesOfD, head_rows(k, p.k, b, t0 + n0, hkv, 0, tokens - n0, p.D, kAligned), thread_index, 256);
    stage(values, kRow, kKeys, 8 * kMatricesOfD, head_rows(v, p.v, b, t0 + n0, hkv, 0, tokens - n0, p.D, kAligned), thread_index, 256);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const bool sees_some = rows > 0 && n0 <= query + 7 && hidden < n0 + kKeys;
    Matrix s[2 * kBlocks];  // scores, then dP
    if (sees_some) {
      clear(s);
      const int last = (query + 7 - n0) / 8 + 1;  // block of keys on the diagonal
      add_scores_and_dp(s, queries, gradients, count, keys + column, values + column, kRow, max(0, (hidden - n0) / 8), last);
    }
    if (kSlices > 1) {
      if (sees_some) put_parts(s, parts, simd);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (sees_some) add_parts<kSlices>(s, parts, simd);
    }
    if (!sees_some) continue;
    WEFT_UNROLL
    for (int j = 0; j < kBlocks; ++j) {
      const int room = query - n0 - 8 * j;                      // keys ahead of its own number that the first row attends to
      const int least = kHasWindow ? hidden - n0 - 8 * j : -8;  // and those before it that a window hides
      if (room < -7) break;
      if (least > 7) continue;
      Matrix outside = outside_causal(at, room);
      if (kHasWindow) leave_out_below(outside, at, least);
      differentiate(s[j], s[kBlocks + j], known.first, known.second, outside, p.scale, cap);
      if (room >= 7 && least <= -7)
        add_weighted(sums, count, s[kBlocks + j], keys + 8 * j * kRow + column, kRow);
      else
        add_weighted_inside(sums, count, s[kBlocks + j], keys + 8 * j * kRow + column, kRow, at, least, room);
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (rows <= 0) return;
  multiply_elements(sums, filled(p.scale));
  store_rows(sums, dq + row_at(p.dq, b, t0 + query, h) + column, p.dq.time, rows, p.D - column, patch, lane);
}

// Equation: dv_j = sum over heads of the group, i >= j of p_ij do_i, dk_j = scale sum of ds_ij q_i; a window leaves out i >= j + window.
// Layout:   as query_gradient; dk, dv [B, T, Hkv, D].
// Grid:     (ceil(T / keys) or slots of documents, Hkv, B) groups of eight simdgroups: 64 / kSlices keys. The heads of the group in order,
//           their queries ascending in tiles of kQueries; within a tile every sum takes eight queries at a time, in order.
// Requires: 256 threads; D <= kD = 64 kSlices. Threadgroup memory, floats: 2 kQueries (kD + 4) for queries and gradients,
//           16 kQueries of statistics and, where there are slices, 128 kQueries of parts: 19, 26 and 21 KiB.
// Traffic:  k, v, dk, dv once; q, dout, lse, delta once per 64 / kSlices keys, tiles outside of window and document not at all. Every
//           multiply-add is in a matrix multiplication.
template <class T, int kD, int kSlices, int kQueries>
[[max_total_threads_per_threadgroup(256)]]
kernel void key_gradients(device const T* q [[buffer(0)]], device const T* k [[buffer(1)]], device const T* v [[buffer(2)]],
                          device const T* dout [[buffer(3)]], device const float* lse [[buffer(4)]],
                          device const float* delta [[buffer(5)]], device T* dk [[buffer(6)]], device T* dv [[buffer(7)]],
                          constant AttentionBackwardParams& p [[buffer(8)]],
                          device const int* documents [[buffer(9), function_constant(kHasDocuments)]],
                          uint3 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],
                          uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  constexpr int kRow = kD + 4, kSpan = kD / kSlices, kMatrices = kSpan / 8, kKeys = 64 / kSlices, kBlocks = kQueries / 8;
  threadgroup float tiles[2 * kQueries * kRow], statistics[2 * 8 * kQueries], parts[kSlices > 1 ? kSimdgroups * 2 * kBlocks * 64 : 1];
  threadgroup float *queries = tiles, *gradients = tiles + kQueries * kRow, *patch = tiles + simd * kPatch;
  const int b = int(group.z), hkv = int(group.y), slot = int(group.x);  // the longest first
  const DocumentTile tile = kHasDocuments ? document_tile(documents, p.documents, kKeys, slot) : DocumentTile{0, p.T, slot * kKeys};
  if (kHasDocuments && tile.at >= tile.tokens) return;
  const int t0 = tile.first, n0 = tile.at, tokens = tile.tokens;
  const int slice = int(simd) % kSlices, key = n0 + int(simd) / kSlices * 8, rows = tokens - key;
  const float cap = kHasSoftCap ? p.soft_cap : 0.0f;
  const int column = slice * kSpan, count = clamp(kMatricesOfD - slice * kMatrices, 0, kMatrices);
  Positions at = positions(patch, lane);
  Matrix keys[kMatrices], values[kMatrices], key_sums[kMatrices], value_sums[kMatrices];
  clear(key_sums);
  clear(value_sums);
  load_rows(keys, count, head_rows(k, p.k, b, t0 + key, hkv, column, rows, p.D, kAligned), patch, lane);
  load_rows(values, count, head_rows(v, p.v, b, t0 + key, hkv, column, rows, p.D, kAligned), patch, lane);

  const int end = kHasWindow ? min(tokens, n0 + kKeys - 1 + p.window) : tokens;  // one past the last query that attends to these keys
  const int first = n0 / kQueries * kQueries, tiles_of_head = (end - first + kQueries - 1) / kQueries;
  for (int step = 0; step < p.group * tiles_of_head; ++step) {
    const int h = hkv * p.group + step / tiles_of_head, m0 = first + step % tiles_of_head * kQueries;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    stage(queries, kRow, kQueries, 8 * kMatricesOfD, head_rows(q, p.q, b, t0 + m0, h, 0, tokens - m0, p.D, kAligned), thread_index, 256);
    stage(gradients, kRow, kQueries, 8 * kMatricesOfD, head_rows(dout, p.dout, b, t0 + m0, h, 0, tokens - m0, p.D, kAligned), thread_index,
          256);
    if (int(thread_index) < 2 * kQueries) {  // lse and delta of eight queries, as eight equal rows
      const int i = int(thread_index) % kQueries, query = m0 + i;
      device const float* from = int(thread_index) < kQueries ? lse : delta;
      const float x = query < tokens ? from[(int64_t(b) * p.H + h) * p.T + t0 + query] : 0.0f;
      for (int copy = 0; copy < 8; ++copy) statistics[(int(thread_index) - i) * 8 + i / 8 * 64 + copy * 8 + i % 8] = x;
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const int left = kHasWindow ? min(tokens - m0, key + 7 + p.window - m0) : tokens - m0;  // queries that attend to some of the rows
    const bool seen = rows > 0 && m0 + kQueries > key && left > 0;
    Matrix s[2 * kBlocks];  // scores, then dP: keys by queries
    if (seen) {
      clear(s);
      const int on_diagonal = (key - m0) / 8, last = (left + 7) / 8;  // blocks of queries; key and m0 are multiples of eight
      add_scores_and_dp(s, keys, values, count, queries + column, gradients + column, kRow, on_diagonal, last);
    }
    if (kSlices > 1) {
      if (seen) put_parts(s, parts, simd);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      if (seen) add_parts<kSlices>(s, parts, simd);
    }
    if (!seen) continue;
    WEFT_UNROLL
    for (int i = 0; i < kBlocks; ++i) {
      const int query = m0 + 8 * i, least = key - query;       // by how much a query's number must be ahead of its key's
      const int most = kHasWindow ? least + p.window - 1 : 8;  // and may be
      if (least > 7 || 8 * i >= left) continue;
      Matrix outside = outside_transposed(at, least, tokens - query);
      if (kHasWindow) leave_out_above(outside, at, most);
      differentiate(s[i], s[kBlocks + i], matrix_at(statistics + 64 * i, 8), matrix_at(statistics + 8 * kQueries + 64 * i, 8), outside,
                    p.scale, cap);
      threadgroup const float *gradient = gradients + 8 * i * kRow + column, *value = queries + 8 * i * kRow + column;
      if (least <= -7 && most >= 7) {
        add_weighted(value_sums, count, s[i], gradient, kRow);
        add_weighted(key_sums, count, s[kBlocks + i], value, kRow);
      } else {
        add_weighted_inside(value_sums, count, s[i], gradient, kRow, at, least, most);
        add_weighted_inside(key_sums, count, s[kBlocks + i], value, kRow, at, least, most);
      }
    }
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (rows <= 0) return;
  multiply_elements(key_sums, filled(p.scale));
  store_rows(key_sums, dk + row_at(p.dk, b, t0 + key, hkv) + column, p.dk.time, rows, p.D - column, patch, lane);
  store_rows(value_sums, dv + row_at(p.dv, b, t0 + key, hkv) + column, p.dv.time, rows, p.D - column, patch, lane);
}

template [[host_name("row_products_f32")]] kernel decltype(row_products<float>) row_products<float>;
template [[host_name("row_products_bf16")]] kernel decltype(row_products<bfloat>) row_products<bfloat>;
template [[host_name("query_gradient_f32_64")]] kernel decltype(query_gradient<float, 64, 1, 32>) query_gradient<float, 64, 1, 32>;
template [[host_name("query_gradient_f32_128")]] kernel decltype(query_gradient<float, 128, 2, 16>) query_gradient<float, 128, 2, 16>;
template [[host_name("query_gradient_f32_256")]] kernel decltype(query_gradient<float, 256, 4, 8>) query_gradient<float, 256, 4, 8>;
template [[host_name("query_gradient_bf16_64")]] kernel decltype(query_gradient<bfloat, 64, 1, 32>) query_gradient<bfloat, 64, 1, 32>;
template [[host_name("query_gradient_bf16_128")]] kernel decltype(query_gradient<bfloat, 128, 2, 16>) query_gradient<bfloat, 128, 2, 16>;
template [[host_name("query_gradient_bf16_256")]] kernel decltype(query_gradient<bfloat, 256, 4, 8>) query_gradient<bfloat, 256, 4, 8>;
template [[host_name("key_gradients_f32_64")]] kernel decltype(key_gradients<float, 64, 1, 32>) key_gradients<float, 64, 1, 32>;
template [[host_name("key_gradients_f32_128")]] kernel decltype(key_gradients<float, 128, 2, 16>) key_gradients<float, 128, 2, 16>;
template [[host_name("key_gradients_f32_256")]] kernel decltype(key_gradients<float, 256, 4, 8>) key_gradients<float, 256, 4, 8>;
template [[host_name("key_gradients_bf16_64")]] kernel decltype(key_gradients<bfloat, 64, 1, 32>) key_gradients<bfloat, 64, 1, 32>;
template [[host_name("key_gradients_bf16_128")]] kernel decltype(key_gradients<bfloat, 128, 2, 16>) key_gradients<bfloat, 128, 2, 16>;
template [[host_name("key_gradients_bf16_256")]] kernel decltype(key_gradients<bfloat, 256, 4, 8>) key_gradients<bfloat, 256, 4, 8>;

}  // namespace weft
