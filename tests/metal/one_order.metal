// Slow kernels in exactly the order of docs/numerics.md, "One order: Metal". One simdgroup computes one row; the row is alone in its
// matrices, at row `place` of eight, the others are zero. Written from the definition; nothing of the library is included.
#include <metal_stdlib>

using namespace metal;
#pragma METAL fp contract(off)

constant constexpr uint kLanes = 32;

inline float load(device const uchar* at, long index, int bf16) {
  if (bf16) return as_type<float>(uint(((device const ushort*)at)[index]) << 16);
  return ((device const float*)at)[index];
}
inline void store(float x, device uchar* at, long index, int bf16) {
  const uint bits = as_type<uint>(x);
  if (bf16)
    ((device ushort*)at)[index] = ushort((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  else
    ((device float*)at)[index] = x;
}

// sums[0..8) += the sum of row[i] block[i][.]: one matrix multiplication. `memory`: 128 floats.
inline void multiply_row(threadgroup float* sums, threadgroup const float* row, threadgroup const float* block, int place,
                         threadgroup float* memory, uint lane) {
  threadgroup float *left = memory, *sum = memory + 64;
  for (uint i = lane; i < 64; i += kLanes) {
    left[i] = int(i / 8) == place ? row[i % 8] : 0.0f;
    sum[i] = int(i / 8) == place ? sums[i % 8] : 0.0f;
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_float8x8 a, b, c;
  simdgroup_load(a, (threadgroup const float*)left, 8ul);
  simdgroup_load(b, block, 8ul);
  simdgroup_load(c, (threadgroup const float*)sum, 8ul);
  simdgroup_multiply_accumulate(c, a, b, c);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_store(c, sum, 8ul);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  if (lane < 8) sums[lane] = sum[8 * place + int(lane)];
  simdgroup_barrier(mem_flags::mem_threadgroup);
}

struct Product {
  int M, N, K;
  int transposed;  // w [N, K], else [K, N]
  int bf16, bf16_out, bias, place;
};

// c = x w + bias: k in eights, one matrix multiplication after the other. Grid (ceil(N / 8), M), 32 threads.
kernel void product(device const uchar* x [[buffer(0)]], device const uchar* w [[buffer(1)]], device const float* bias [[buffer(2)]],
                    device uchar* c [[buffer(3)]], constant Product& p [[buffer(4)]], uint2 group [[threadgroup_position_in_grid]],
                    uint lane [[thread_index_in_threadgroup]]) {
  threadgroup float row[8], sums[8], block[64], memory[128];
  const int n0 = int(group.x) * 8, m = int(group.y);
  if (lane < 8) sums[lane] = 0.0f;
  for (int k0 = 0; k0 < p.K; k0 += 8) {
    if (lane < 8) row[lane] = k0 + int(lane) < p.K ? load(x, long(m) * p.K + k0 + lane, p.bf16) : 0.0f;
    for (uint i = lane; i < 64; i += kLanes) {
      const int k = k0 + int(i) / 8, n = n0 + int(i) % 8;
      block[i] = k < p.K && n < p.N ? load(w, p.transposed ? long(n) * p.K + k : long(k) * p.N + n, p.bf16) : 0.0f;
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
    multiply_row(sums, row, block, p.place, memory, lane);
  }
  const int n = n0 + int(lane);
  if (lane < 8 && n < p.N) store(p.bias ? sums[lane] + bias[n] : sums[lane], c, long(m) * p.N + n, p.bf16_out);
}

struct Attention {
  int T, H, Hkv, D;
  int tile, span, segment;  // keys of a tile, columns of D in a slice, keys of a segment
  int bf16, place;
  float scale;
};

// o = softmax(scale q k^T) v over the keys up to the query's own. q, o [B, T, H, D], k, v [B, T, Hkv, D]. Grid (T, H, B), 32 threads.
kernel void attention(device const uchar* q [[buffer(0)]], device const uchar* k [[buffer(1)]], device const uchar* v [[buffer(2)]],
                      device uchar* o [[buffer(3)]], constant Attention& p [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                      uint lane [[thread_index_in_threadgroup]]) {
  threadgroup float row[8], part[8], block[64], memory[128], scores[32], total[8], sums[256], all_sums[256];
  const int t = int(group.x), h = int(group.y), hkv = h / (p.H / p.Hkv);
  const long b = group.z, query = ((b * p.T + t) * p.H + h) * p.D;
  float all_largest = 0.0f, all_total = 0.0f;
  for (int s0 = 0; s0 <= t; s0 += p.segment) {
    float largest = -INFINITY;
    for (uint d = lane; d < 256; d += kLanes) sums[d] = 0.0f;
    if (lane < 8) total[lane] = 0.0f;
    for (int n0 = s0; n0 <= t && n0 < s0 + p.segment; n0 += p.tile) {
      const int keys = min(p.tile, t + 1 - n0);
      // Scores: the slices of D in order, each a chain over eights, scaled before they are added.
      for (int j0 = 0; j0 < keys; j0 += 8) {
        float score = 0.0f;
        for (int d1 = 0; d1 < p.D; d1 += p.span) {
          if (lane < 8) part[lane] = 0.0f;
          for (int d0 = d1; d0 < min(p.D, d1 + p.span); d0 += 8) {
            if (lane < 8) row[lane] = d0 + int(lane) < p.D ? load(q, query + d0 + lane, p.bf16) : 0.0f;
            for (uint i = lane; i < 64; i += kLanes) {
              const int d = d0 + int(i) / 8, j = j0 + int(i) % 8;
              block[i] = d < p.D && j < keys ? load(k, ((b * p.T + n0 + j) * p.Hkv + hkv) * p.D + d, p.bf16) : 0.0f;
            }
            simdgroup_barrier(mem_flags::mem_threadgroup);
            multiply_row(part, row, block, p.place, memory, lane);
          }
          score += part[lane % 8] * p.scale;
          simdgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (lane < 8) scores[j0 + lane] = score;
      }
      simdgroup_barrier(mem_flags::mem_threadgroup);
      float most = largest;
      for (int j = 0; j < keys; ++j) most = fmax(most, scores[j]);
      const float factor = precise::exp(largest - most);
      largest = most;
      for (uint d = lane; d < 256; d += kLanes) sums[d] *= factor;
      if (lane < 8) total[lane] *= factor;
      for (int j0 = 0; j0 < keys; j0 += 8) {
        if (lane < 8) row[lane] = j0 + int(lane) < keys ? precise::exp(scores[j0 + lane] - most) : 0.0f;
        for (uint i = lane; i < 64; i += kLanes) block[i] = 1.0f;
        simdgroup_barrier(mem_flags::mem_threadgroup);
        multiply_row(total, row, block, p.place, memory, lane);
        for (int d0 = 0; d0 < p.D; d0 += 8) {
          for (uint i = lane; i < 64; i += kLanes) {
            const int j = j0 + int(i) / 8, d = d0 + int(i) % 8;
            block[i] = d < p.D && j < keys ? load(v, ((b * p.T + n0 + j) * p.Hkv + hkv) * p.D + d, p.bf16) : 0.0f;
          }
          simdgroup_barrier(mem_flags::mem_threadgroup);
          multiply_row(sums + d0, row, block, p.place, memory, lane);
        }
      }
    }
    // The first segment is taken as it is.
    const float most = fmax(all_largest, largest), earlier = precise::exp(all_largest - most), later = precise::exp(largest - most);
    all_total = s0 == 0 ? total[0] : fma(total[0], later, all_total * earlier);
    for (int d = int(lane); d < p.D; d += int(kLanes)) all_sums[d] = s0 == 0 ? sums[d] : fma(sums[d], later, all_sums[d] * earlier);
    all_largest = s0 == 0 ? largest : most;
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
  for (int d = int(lane); d < p.D; d += int(kLanes)) store(all_sums[d] / all_total, o, query + d, p.bf16);
}
