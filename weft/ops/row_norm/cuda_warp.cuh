// Norms of short rows with a warp to a row (bf16, 257 to 1024 columns in whole chunks). The results have the bits of the kernels with 128
// threads to a row (cuda.cuh): chunk c of a row belongs to lane c % 32 and part c / 32, which were lane and warp there; the parts are
// reduced by the same butterfly and added in the same order. A warp needs no barrier and its overhead is paid once a row, not four times.
#pragma once

#include "weft/ops/row_norm/cuda_params.cuh"
#include "weft/tile/cuda/rows.cuh"
#include "weft/tile/cuda/shared_vector.cuh"

namespace weft::cuda {

inline constexpr int kRowParts = 4, kRowWidth = 8;  // parts of a row; elements of a chunk
using RowChunk = Chunk<__nv_bfloat16, kRowWidth>;

// Whether rows of these columns, aligned to 16 bytes, go through the kernels below.
inline bool row_of_warp(int64_t columns) {
  return columns % kRowWidth == 0 && columns > 32 * kRowWidth && columns <= kRowParts * 32 * kRowWidth;
}

// The column of this lane's chunk in a part.
__device__ __forceinline__ int chunk_column(int part) { return (part * 32 + int(threadIdx.x % 32)) * kRowWidth; }

// Sums over a row, kSums at once, from this lane's sums of each part.
template <int kSums>
__device__ __forceinline__ void row_sums(float (&part)[kSums][kRowParts], float (&total)[kSums]) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
    for (int s = 0; s < kSums; ++s)
#pragma unroll
      for (int k = 0; k < kRowParts; ++k) part[s][k] += __shfl_xor_sync(0xffffffffu, part[s][k], distance);
#pragma unroll
  for (int s = 0; s < kSums; ++s) total[s] = ((part[s][0] + part[s][1]) + part[s][2]) + part[s][3];
}

// A part of a row in registers; zeros past its end. All loads of a row are in flight before the first is used.
template <class T>
__device__ __forceinline__ Chunk<T, kRowWidth> load_part(const T* row, int part, int columns) {
  Chunk<T, kRowWidth> chunk;
  const int first = chunk_column(part);
#pragma unroll
  for (int v = 0; v < Chunk<T, kRowWidth>::kVectors; ++v) {
    uint4 vector{0, 0, 0, 0};
    if (first < columns) vector = reinterpret_cast<const uint4*>(row + first)[v];
    reinterpret_cast<uint4*>(chunk.at)[v] = vector;
  }
  return chunk;
}

// Equation: as norm_forward.
// Layout:   as norm_forward; block b has rows 4 b to 4 b + 3, a warp each.
// Order:    as norm_forward with 128 threads to a row: the parts of a row stand for their warps.
// Requires: bf16 rows that row_of_warp() takes, aligned to 16 bytes, as are w and b.
// Traffic:  one read of each input, one write of each output.
template <class Weight, bool kCentred>
__global__ void __launch_bounds__(128) norm_forward_by_warp(const RowNorm<__nv_bfloat16, Weight> p) {
  const int64_t r = int64_t(blockIdx.x) * 4 + threadIdx.x / 32;
  if (r >= p.rows) return;
  RowChunk h[kRowParts];
#pragma unroll
  for (int k = 0; k < kRowParts; ++k) h[k] = load_part(p.x + r * p.x_stride, k, p.columns);
  if (p.residual) {  // the rounded h is normalised, so that the backward sees the same values
    RowChunk more[kRowParts];
#pragma unroll
    for (int k = 0; k < kRowParts; ++k) more[k] = load_part(p.residual + r * p.residual_stride, k, p.columns);
#pragma unroll
    for (int k = 0; k < kRowParts; ++k) {
#pragma unroll
      for (int i = 0; i < kRowWidth; ++i) h[k].set(i, h[k][i] + more[k][i]);
      if (chunk_column(k) < p.columns) stream_chunk(h[k], p.h + r * p.h_stride + chunk_column(k));
    }
  }
  const float over_columns = 1.0f / float(p.columns);
  float parts[1][kRowParts] = {}, total[1];  // of h where centred, else of h^2
#pragma unroll
  for (int k = 0; k < kRowParts; ++k)
#pragma unroll
    for (int i = 0; i < kRowWidth; ++i) parts[0][k] = kCentred ? parts[0][k] + h[k][i] : fmaf(h[k][i], h[k][i], parts[0][k]);
  row_sums(parts, total);
  float mean = 0, mean_square = 0;
  if constexpr (kCentred) {
    mean = total[0] * over_columns;
    float squares[1][kRowParts] = {};
#pragma unroll
    for (int k = 0; k < kRowParts; ++k)
#pragma unroll
      for (int i = 0; i < kRowWidth; ++i) {
        const float v = chunk_column(k) < p.columns ? h[k][i] - mean : 0.0f;
        squares[0][k] = fmaf(v, v, squares[0][k]);
      }
    row_sums(squares, total);
    mean_square = total[0] * over_columns;
  } else {
    mean_square = total[0] / float(p.columns);
  }
  const float rstd = 1.0f / sqrtf(mean_square + p.eps);
  if (threadIdx.x % 32 == 0) {
    if constexpr (kCentred) p.mean[r] = mean;
    p.rstd[r] = rstd;
  }
#pragma unroll
  for (int k = 0; k < kRowParts; ++k) {
    if (chunk_column(k) >= p.columns) continue;
    const auto weight = load_chunk<Weight, kRowWidth>(p.w + chunk_column(k));
    Chunk<Weight, kRowWidth> bias;
    if (kCentred && p.b) bias = load_chunk<Weight, kRowWidth>(p.b + chunk_column(k));
#pragma unroll
    for (int i = 0; i < kRowWidth; ++i) {
      const float z = (kCentred ? h[k][i] - mean : h[k][i]) * rstd;
      h[k].set(i, kCentred && p.b ? fmaf(z, weight[i], bias[i]) : z * weight[i]);
    }
    stream_chunk(h[k], p.y + r * p.y_stride + chunk_column(k));
  }
}

// The rows of dy, h and dh that a warp works on, copied into shared memory three rows ahead. A lane reads what it copied itself.
template <class Weight>
class RowsAhead {
 public:
  static constexpr int kStages = 4, kOperands = 3;
  static constexpr int bytes(int64_t columns) { return kStages * kOperands * parts(columns) * 32 * 16; }

  __device__ __forceinline__ RowsAhead(void* shared, const RowNormBackward<__nv_bfloat16, Weight>& p, int64_t first)
      : p_(p), shared_(shared_address(shared) + threadIdx.x * 16), next_(first), parts_(parts(p.columns)) {
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) fetch();
  }
  // The next row arrives; the oldest one may be overwritten.
  __device__ __forceinline__ void arrive() {
    fetch();
    copies_wait<kStages - 1>();
    now_ = (now_ + 1) % kStages;
  }
  // 0: dy, 1: h, 2: dh
  __device__ __forceinline__ RowChunk piece(int operand, int part) const {
    RowChunk chunk;
    *reinterpret_cast<uint4*>(chunk.at) = shared_vector(slot(now_, operand, part));
    return chunk;
  }

 private:
  __host__ __device__ static constexpr int parts(int64_t columns) { return int((columns + 32 * kRowWidth - 1) / (32 * kRowWidth)); }
  __device__ __forceinline__ uint32_t slot(int stage, int operand, int part) const {
    return shared_ + uint32_t((stage * kOperands + operand) * parts_ + part) * 512;
  }
  __device__ __forceinline__ void fetch() {
    if (next_ < p_.rows) {
      copy(0, p_.dy + next_ * p_.dy_stride);
      copy(1, p_.h + next_ * p_.h_stride);
      if (p_.dh) copy(2, p_.dh + next_ * p_.dh_stride);
    }
    copies_end();  // past the last row too: copies_wait counts groups
    next_ += p_.partials;
    fill_ = (fill_ + 1) % kStages;
  }
  __device__ __forceinline__ void copy(int operand, const __nv_bfloat16* row) {
#pragma unroll
    for (int k = 0; k < kRowParts; ++k)
      if (chunk_column(k) < p_.columns) copy_async(slot(fill_, operand, k), row + chunk_column(k));
  }

  const RowNormBackward<__nv_bfloat16, Weight>& p_;
  uint32_t shared_;
  int64_t next_;
  int parts_, fill_ = 0, now_ = kStages - 1;
};

// Equation: as norm_backward.
// Layout:   as norm_backward; a block is one warp.
// Order:    as norm_backward with 128 threads to a row, dw and db too: warp g takes rows g, g + P, ...
// Requires: as norm_forward_by_warp; P blocks.
// Traffic:  one read of dy, dh, h, one write of dx; P rows of dw and db written.
template <class Weight, bool kCentred>
__global__ void __launch_bounds__(32) norm_backward_by_warp(const RowNormBackward<__nv_bfloat16, Weight> p) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int64_t group = blockIdx.x;
  const float over_columns = 1.0f / float(p.columns);
  Chunk<Weight, kRowWidth> w[kRowParts];
#pragma unroll
  for (int k = 0; k < kRowParts; ++k) w[k] = load_part(p.w, k, p.columns);
  float dw[kRowParts][kRowWidth] = {}, db[kRowParts][kRowWidth] = {};
  RowsAhead<Weight> in(shared, p, group);
  float mean = kCentred ? p.mean[group] : 0.0f, rstd = p.rstd[group];
  for (int64_t r = group; r < p.rows; r += p.partials) {
    const int64_t after = r + p.partials < p.rows ? r + p.partials : r;
    const float next_mean = kCentred ? p.mean[after] : 0.0f, next_rstd = p.rstd[after];
    in.arrive();
    RowChunk dy[kRowParts], h[kRowParts];
    float parts[2][kRowParts] = {}, total[2];  // s1 and s2
#pragma unroll
    for (int k = 0; k < kRowParts; ++k) {
      if (chunk_column(k) >= p.columns) continue;
      dy[k] = in.piece(0, k), h[k] = in.piece(1, k);
#pragma unroll
      for (int i = 0; i < kRowWidth; ++i) {
        const float g = dy[k][i] * w[k][i];
        if constexpr (kCentred) parts[0][k] += g;
        parts[1][k] = fmaf(g, kCentred ? (h[k][i] - mean) * rstd : h[k][i], parts[1][k]);
      }
    }
    row_sums(parts, total);
    const float mean_g = total[0] * over_columns;
    const float projection = kCentred ? total[1] * over_columns : total[1] * rstd * rstd / float(p.columns);
#pragma unroll
    for (int k = 0; k < kRowParts; ++k) {
      if (chunk_column(k) >= p.columns) continue;
      RowChunk dx, dh;
      if (p.dh) dh = in.piece(2, k);
#pragma unroll
      for (int i = 0; i < kRowWidth; ++i) {
        const float d = dy[k][i], v = h[k][i];
        float own;
        if constexpr (kCentred) {
          const float z = (v - mean) * rstd;
          own = rstd * fmaf(-z, projection, d * w[k][i] - mean_g);
          dw[k][i] += d * z;
          db[k][i] += d;
        } else {
          dw[k][i] += d * v * rstd;
          own = rstd * fmaf(-v, projection, d * w[k][i]);
        }
        dx.set(i, p.dh ? own + dh[i] : own);
      }
      stream_chunk(dx, p.dx + r * p.dx_stride + chunk_column(k));
    }
    mean = next_mean, rstd = next_rstd;
  }
#pragma unroll
  for (int k = 0; k < kRowParts; ++k) {
    if (chunk_column(k) >= p.columns) continue;
#pragma unroll
    for (int i = 0; i < kRowWidth; ++i) {
      p.dw_partial[group * p.columns + chunk_column(k) + i] = dw[k][i];
      if (kCentred && p.db_partial) p.db_partial[group * p.columns + chunk_column(k) + i] = db[k][i];
    }
  }
}

}  // namespace weft::cuda
