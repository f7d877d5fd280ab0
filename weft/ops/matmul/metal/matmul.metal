#include <metal_stdlib>

#include "weft/ops/matmul/params.h"
#include "weft/tile/metal/activation.metal.h"
#include "weft/tile/metal/mma.metal.h"
#include "weft/tile/metal/scalar.metal.h"
#include "weft/tile/metal/tile.metal.h"

using namespace metal;

namespace weft {

constant bool kTransposeA [[function_constant(0)]];
constant bool kTransposeB [[function_constant(1)]];
constant bool kAlignedA [[function_constant(2)]];
constant bool kAlignedB [[function_constant(3)]];
constant bool kBias [[function_constant(4)]];      // of c's dtype
constant bool kWideBias [[function_constant(5)]];  // f32
constant bool kKeepsPre [[function_constant(6)]];
constant bool kSharedB [[function_constant(7)]];

inline int64_t offset(MatmulPlace place, int64_t inner, int64_t matrix) {
  return matrix / inner * place.outer + matrix % inner * place.inner;
}

// The outputs of one matrix; the function constants define which are bound.
template <class Out>
struct Results {
  device Out* c;
  device Out* pre;
  device const Out* bias;
  device const float* wide_bias;

  Results of_matrix(constant MatmulParams& p, int64_t matrix) const thread {
    return {c + offset(p.c, p.inner, matrix), kKeepsPre ? pre + offset(p.pre, p.inner, matrix) : pre, bias, wide_bias};
  }
};

template <class Out>
inline float bias_at(Results<Out> to, int64_t n) {
  return kBias ? to_float(to.bias[n]) : kWideBias ? to.wide_bias[n] : 0.0f;
}

// pre = alpha sum + beta C + bias, c = f(pre) at one element.
template <class Out>
inline void finish(Results<Out> to, constant MatmulParams& p, int64_t m, int64_t n, float sum, float bias) {
  float x = p.alpha * sum;
  if (p.beta != 0.0f) x = fma(p.beta, to_float(to.c[m * p.c.row + n]), x);
  if (kBias || kWideBias) x += bias;
  if (kKeepsPre) to.pre[m * p.pre.row + n] = from_float<Out>(x);
  to.c[m * p.c.row + n] = from_float<Out>(activate(x, Activation(p.activation)));
}

// kSide by kKBlock of op(A), or kKBlock by kSide of op(B), in the orientation it is stored in: `across` counts the rows and
// columns of c, k the terms of its sums. Lines are four longer than needed, so that columns are in different banks.
template <int kSide, int kKBlock>
struct Operand {
  bool k_first;  // stored [k][across]
  threadgroup float* tile;

  int stride() const thread { return k_first ? kSide + 4 : kKBlock + 4; }
  template <class T>
  void stage(device const T* matrix, int64_t row, int64_t across, int64_t k, int64_t across_end, int64_t k_end, bool aligned,
             uint thread_index) const thread {
    const int left_across = int(min(across_end - across, int64_t(kSide))), left_k = int(min(k_end - k, int64_t(kKBlock)));
    if (k_first)
      weft::stage(tile, stride(), kKBlock, kSide, Piece<T>{matrix + k * row + across, row, left_k, left_across, aligned}, thread_index,
                  128);
    else
      weft::stage(tile, stride(), kSide, kKBlock, Piece<T>{matrix + across * row + k, row, left_across, left_k, aligned}, thread_index,
                  128);
  }
  // The eight by eight at (across, k), with k along columns (A) or along rows (B).
  Matrix across_by_k(int across, int k) const thread {
    return k_first ? transposed_at(tile + k * stride() + across, stride()) : matrix_at(tile + across * stride() + k, stride());
  }
  Matrix k_by_across(int across, int k) const thread {
    return k_first ? matrix_at(tile + k * stride() + across, stride()) : transposed_at(tile + across * stride() + k, stride());
  }
};

// Equation: pre = alpha op(A) op(B) + beta C + bias, c = f(pre).
// Layout:   A, B, C, pre row-major with any row stride, matrices of a batch at any distance; bias [N].
// Grid:     (ceil(N / kSide), ceil(M / kSide), batch) groups of four simdgroups, each with a quarter of the block in
//           (kSide / 16)^2 matrices of sums. k ascends in eights, one matrix multiplication each, so an element's sum does not
//           depend on kSide; beta C comes at the end.
// Requires: 128 threads, 10 KiB of threadgroup memory. Any extents: past the edges there are zeros. K = 0 gives f(beta C + bias).
// Traffic:  A once per kSide columns of c, B once per kSide rows; C once, or twice where beta is not 0; bias twice per kSide
//           rows (each half of a block). A staged element
//           goes from threadgroup memory to two simdgroups; two loads of 256 bytes feed kSide / 16 multiplications.
template <class T, class Out, int kSide>
[[max_total_threads_per_threadgroup(128)]]
kernel void multiply(device const T* a [[buffer(0)]], device const T* b [[buffer(1)]], device Out* c [[buffer(2)]],
                     device Out* pre [[buffer(3), function_constant(kKeepsPre)]],
                     device const Out* bias [[buffer(4), function_constant(kBias)]],
                     device const float* wide_bias [[buffer(5), function_constant(kWideBias)]], constant MatmulParams& p [[buffer(6)]],
                     uint3 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],
                     uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  constexpr int kKBlock = 16, kHalf = kSide / 2, kSums = kHalf / 8;
  threadgroup float left[kSide * (kKBlock + 4)], right[kSide * (kKBlock + 4)];
  const Operand<kSide, kKBlock> x = {kTransposeA, left}, y = {!kTransposeB, right};
  const int64_t matrix = group.z, m0 = int64_t(group.y) * kSide, n0 = int64_t(group.x) * kSide;
  a += offset(p.a, p.inner, matrix);
  if (!kSharedB) b += offset(p.b, p.inner, matrix);
  const int row = int(simd / 2) * kHalf, column = int(simd % 2) * kHalf;  // of this simdgroup's quarter

  Matrix sums[kSums][kSums];
  WEFT_UNROLL
  for (int i = 0; i < kSums; ++i) WEFT_UNROLL
  for (int j = 0; j < kSums; ++j) sums[i][j] = filled(0.0f);
  for (int64_t k0 = 0; k0 < p.K; k0 += kKBlock) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    x.stage(a, p.a.row, m0, k0, p.M, p.K, kAlignedA, thread_index);
    y.stage(b, p.b.row, n0, k0, p.N, p.K, kAlignedB, thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (int k = 0; k < kKBlock && k0 + k < p.K; k += 8) {
      Matrix rows[kSums], columns[kSums];
      WEFT_UNROLL
      for (int i = 0; i < kSums; ++i) {
        rows[i] = x.across_by_k(row + 8 * i, k);
        columns[i] = y.k_by_across(column + 8 * i, k);
      }
      WEFT_UNROLL
      for (int i = 0; i < kSums; ++i) WEFT_UNROLL
      for (int j = 0; j < kSums; ++j) multiply_add(sums[i][j], rows[i], columns[j]);
    }
  }

  // Eight rows at a time through this simdgroup's part of `left`, so that lanes write whole lines of c.
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threadgroup float* lines = left + simd * 8 * (kHalf + 4);
  const Results<Out> to = Results<Out>{c, pre, bias, wide_bias}.of_matrix(p, matrix);
  const int64_t own = n0 + column + lane;  // a lane's columns are lane mod kHalf
  const float of_column = simd_shuffle(lane < kHalf && own < p.N && m0 + row < p.M ? bias_at(to, own) : 0.0f, ushort(lane % kHalf));
  WEFT_UNROLL
  for (int i = 0; i < kSums; ++i) {
    WEFT_UNROLL
    for (int j = 0; j < kSums; ++j) simdgroup_store(sums[i][j], lines + 8 * j, ulong(kHalf + 4));
    simdgroup_barrier(mem_flags::mem_threadgroup);
    for (int at = int(lane); at < 8 * kHalf; at += 32) {
      const int64_t m = m0 + row + 8 * i + at / kHalf, n = n0 + column + at % kHalf;
      if (m < p.M && n < p.N) finish(to, p, m, n, lines[at / kHalf * (kHalf + 4) + at % kHalf], of_column);
    }
    simdgroup_barrier(mem_flags::mem_threadgroup);
  }
}

// Row r of those that share one B: of matrix r / M if B is shared, else of matrix `job`.
struct RowPlace {
  int64_t matrix, m;
};
inline RowPlace row_place(constant MatmulParams& p, int64_t job, int r) {
  return kSharedB ? RowPlace{r / p.M, r % p.M} : RowPlace{job, int64_t(r)};
}

// kKBlock terms of the rows, lines kKBlock + 4 apart; zeros for the rows up to the eighth.
template <class T, int kKBlock>
inline void stage_rows(threadgroup float* rows, device const T* a, constant MatmulParams& p, int64_t job, int64_t k0, uint thread_index) {
  for (int r = 0; r < 8; ++r) {
    const RowPlace place = row_place(p, job, r < p.rows ? r : 0);
    device const T* row = a + offset(p.a, p.inner, place.matrix) + (kTransposeA ? place.m : place.m * p.a.row);
    for (int i = int(thread_index); i < kKBlock; i += 128)
      rows[r * (kKBlock + 4) + i] = r < p.rows && k0 + i < p.K ? to_float(row[kTransposeA ? (k0 + i) * p.a.row : k0 + i]) : 0.0f;
  }
}

// Equation: as multiply, for at most eight rows that share one B: a matrix-vector product is bound by reading B.
// Layout:   as multiply.
// Grid:     (ceil(N / kColumns), 1, batch; 1 where B is shared) groups of four simdgroups. All stage; the first kColumns / 8 have eight
//           columns of c each, the rows padded to eight. k ascends in eights, one matrix multiplication each: multiply's order, so a row
//           has the same bits in both kernels.
// Requires: 128 threads, 15 KiB of threadgroup memory; rows <= 8. Any extents, as multiply.
// Traffic:  B and bias once; A once per kColumns columns of c. Eight multiply-adds for each element of B, whatever the number of rows.
template <class T, class Out, int kColumns, int kKBlock>
[[max_total_threads_per_threadgroup(128)]]
kernel void multiply_few(device const T* a [[buffer(0)]], device const T* b [[buffer(1)]], device Out* c [[buffer(2)]],
                         device Out* pre [[buffer(3), function_constant(kKeepsPre)]],
                         device const Out* bias [[buffer(4), function_constant(kBias)]],
                         device const float* wide_bias [[buffer(5), function_constant(kWideBias)]], constant MatmulParams& p [[buffer(6)]],
                         uint3 group [[threadgroup_position_in_grid]], uint thread_index [[thread_index_in_threadgroup]],
                         uint simd [[simdgroup_index_in_threadgroup]], uint lane [[thread_index_in_simdgroup]]) {
  constexpr int kRow = kKBlock + 4, kTile = kColumns * kRow > kKBlock * (kColumns + 4) ? kColumns * kRow : kKBlock * (kColumns + 4);
  threadgroup float rows[8 * kRow], right[kTile], lines[kColumns * 8];
  const Operand<kColumns, kKBlock> y = {!kTransposeB, right};
  const int64_t job = group.z, n0 = int64_t(group.x) * kColumns;
  if (!kSharedB) b += offset(p.b, p.inner, job);
  const int column = 8 * int(simd);
  Matrix sum = filled(0.0f);
  for (int64_t k0 = 0; k0 < p.K; k0 += kKBlock) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    y.stage(b, p.b.row, n0, k0, p.N, p.K, kAlignedB, thread_index);
    stage_rows<T, kKBlock>(rows, a, p, job, k0, thread_index);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (column >= kColumns) continue;
    for (int k = 0; k < kKBlock && k0 + k < p.K; k += 8) multiply_add(sum, matrix_at(rows + k, kRow), y.k_by_across(column, k));
  }
  if (column >= kColumns) return;

  threadgroup float* own = lines + 64 * simd;
  simdgroup_store(sum, own, 8ul);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  const Results<Out> to = {c, pre, bias, wide_bias};
  const int64_t n = n0 + column + lane % 8;
  const float of_column = simd_shuffle(lane < 8 && n < p.N ? bias_at(to, n) : 0.0f, ushort(lane % 8));
  for (int r = int(lane) / 8; r < p.rows; r += 4) {
    const RowPlace place = row_place(p, job, r);
    if (n < p.N) finish(to.of_matrix(p, place.matrix), p, place.m, n, own[8 * r + int(lane) % 8], of_column);
  }
}

template [[host_name("multiply_f32_f32_64")]] kernel decltype(multiply<float, float, 64>) multiply<float, float, 64>;
template [[host_name("multiply_f32_f32_32")]] kernel decltype(multiply<float, float, 32>) multiply<float, float, 32>;
template [[host_name("multiply_bf16_bf16_64")]] kernel decltype(multiply<bfloat, bfloat, 64>) multiply<bfloat, bfloat, 64>;
template [[host_name("multiply_bf16_bf16_32")]] kernel decltype(multiply<bfloat, bfloat, 32>) multiply<bfloat, bfloat, 32>;
template [[host_name("multiply_bf16_f32_64")]] kernel decltype(multiply<bfloat, float, 64>) multiply<bfloat, float, 64>;
template [[host_name("multiply_bf16_f32_32")]] kernel decltype(multiply<bfloat, float, 32>) multiply<bfloat, float, 32>;
template
    [[host_name("multiply_few_f32_f32_rows")]] kernel decltype(multiply_few<float, float, 16, 128>) multiply_few<float, float, 16, 128>;
template
    [[host_name("multiply_few_f32_f32_columns")]] kernel decltype(multiply_few<float, float, 32, 64>) multiply_few<float, float, 32, 64>;
template [[host_name(
    "multiply_few_bf16_bf16_rows")]] kernel decltype(multiply_few<bfloat, bfloat, 16, 128>) multiply_few<bfloat, bfloat, 16, 128>;
template [[host_name(
    "multiply_few_bf16_bf16_columns")]] kernel decltype(multiply_few<bfloat, bfloat, 32, 64>) multiply_few<bfloat, bfloat, 32, 64>;
template
    [[host_name("multiply_few_bf16_f32_rows")]] kernel decltype(multiply_few<bfloat, float, 16, 128>) multiply_few<bfloat, float, 16, 128>;
template
    [[host_name("multiply_few_bf16_f32_columns")]] kernel decltype(multiply_few<bfloat, float, 32, 64>) multiply_few<bfloat, float, 32, 64>;

}  // namespace weft
