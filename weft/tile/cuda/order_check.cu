#include "weft/tile/cuda/order_check.h"

#include <algorithm>

#include "weft/tile/cuda/mma.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kMostTiles = 1024;  // that are compared
constexpr int kTileRows = 16, kTileColumns = 8;

struct Tile {
  int m0, n0;
};
// Tile number `i` of `count`, spread evenly over all of them.
__device__ Tile tile_at(const OrderedProduct& p, int64_t i, int64_t count) {
  const int64_t columns = (p.N + kTileColumns - 1) / kTileColumns, all = columns * ((p.M + kTileRows - 1) / kTileRows);
  const int64_t tile = count > 1 ? i * (all - 1) / (count - 1) : 0;
  return {int(tile / columns) * kTileRows, int(tile % columns) * kTileColumns};
}

template <class T>
__device__ float weight_at(const OrderedProduct& p, int n, int k) {
  if (n >= p.N || k >= p.K) return 0;
  return to_float(static_cast<const T*>(p.w)[p.transpose_b ? n * p.w_row + k : k * p.w_row + n]);
}
template <class T>
__device__ float x_at(const OrderedProduct& p, int m, int k) {
  return m < p.M && k < p.K ? to_float(static_cast<const T*>(p.x)[m * p.x_row + k]) : 0.0f;
}

template <class Out>
__device__ void compare(const OrderedProduct& p, int m, int n, float sum, const void* d, int* different) {
  if (m >= p.M || n >= p.N) return;
  const int64_t at = m * p.d_row + n;
  float x = p.alpha * sum;
  if (p.beta != 0) x = fmaf(p.beta, to_float(static_cast<const Out*>(p.c)[at]), x);
  if (p.bias) x += p.bias_dtype == DType::f32 ? static_cast<const float*>(p.bias)[n] : to_float(static_cast<const Out*>(p.bias)[n]);
  const float wanted = to_float(from_float<Out>(x)), got = to_float(static_cast<const Out*>(d)[at]);
  if (wanted != got && !(wanted != wanted && got != got)) atomicAdd(different, 1);
}

// Equation: as OrderedProduct, on some tiles; counts where d differs.
// Layout:   as OrderedProduct.
// Order:    K in sixteens, one mma after the other from zero.
// Requires: a warp to a block.
// Traffic:  that of the tiles, uncoalesced: it runs once for a choice.
template <class Out>
__global__ void compare_bf16(const OrderedProduct p, const void* d, int* different) {
  using T = __nv_bfloat16;
  const Tile tile = tile_at(p, blockIdx.x, gridDim.x);
  const int lane = int(threadIdx.x), row = lane_row(lane), column = lane_column(lane);
  FragmentC sum{};
  for (int k = 0; k < p.K; k += 16) {
    const auto x = [&](int m, int at) { return pack(x_at<T>(p, tile.m0 + m, k + at), x_at<T>(p, tile.m0 + m, k + at + 1)); };
    const auto w = [&](int at) { return pack(weight_at<T>(p, tile.n0 + row, k + at), weight_at<T>(p, tile.n0 + row, k + at + 1)); };
    const FragmentA a{{x(row, column), x(row + 8, column), x(row, column + 8), x(row + 8, column + 8)}};
    multiply_add(sum, a, FragmentB{{w(column), w(column + 8)}});
  }
  for (int i = 0; i < 4; ++i)
    compare<Out>(p, tile.m0 + FragmentC::row(i, lane), tile.n0 + FragmentC::column(i, lane), sum.x[i], d, different);
}

// Equation, layout, requires, traffic: as compare_bf16, in f32.
// Order:    one fma for each k from 0 on.
__global__ void compare_f32(const OrderedProduct p, const void* d, int* different) {
  const Tile tile = tile_at(p, blockIdx.x, gridDim.x);
  for (int at = int(threadIdx.x); at < kTileRows * kTileColumns; at += 32) {
    const int m = tile.m0 + at / kTileColumns, n = tile.n0 + at % kTileColumns;
    float sum = 0;
    for (int k = 0; k < p.K; ++k) sum = fmaf(x_at<float>(p, m, k), weight_at<float>(p, n, k), sum);
    compare<float>(p, m, n, sum, d, different);
  }
}

// (-1 or 1) (1 + a fraction) 2^-e, e in [0, 8), all from a hash.
__device__ float value_of(uint32_t i, uint32_t seed) {
  uint32_t h = (i ^ seed) * 0x9e3779b9u;
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  h ^= h >> 16;
  return __uint_as_float((h & 0x80000000u) | (127 - (h >> 28 & 7)) << 23 | (h & 0x7fffffu));
}

// Equation: x_i = 2^power value_of(i).
// Layout:   `count` elements.
// Order:    elementwise.
// Requires: nothing.
// Traffic:  one write.
template <class T>
__global__ void fill_values(T* to, int64_t count, uint32_t seed, int power) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x)
    to[i] = from_float<T>(ldexpf(value_of(uint32_t(i), seed), power));
}

// Equation: x(i, k) = value_of(i, k mod h), h = K / 2, with the other sign from k = h on if `negated`; 0 at k = 2 h.
// Layout:   as CancellingOperand.
// Order:    elementwise.
// Requires: nothing.
// Traffic:  one write.
template <class T>
__global__ void fill_halves(T* to, const CancellingOperand o, uint32_t seed) {
  for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < o.rows * o.columns; at += int64_t(gridDim.x) * blockDim.x) {
    const int64_t r = at / o.columns, c = at % o.columns, k = o.k_is_column ? c : r, i = o.k_is_column ? r : c;
    const int64_t half = (o.k_is_column ? o.columns : o.rows) / 2;
    float x = k < 2 * half ? value_of(uint32_t(i * half + k % max(half, int64_t(1))), seed) : 0.0f;
    if (o.negated && k >= half) x = -x;
    to[r * o.row + c] = from_float<T>(x);
  }
}

}  // namespace

void count_differences(cudaStream_t stream, const OrderedProduct& p, const void* d, int* different) {
  const int64_t tiles = int64_t((p.M + kTileRows - 1) / kTileRows) * ((p.N + kTileColumns - 1) / kTileColumns);
  const unsigned blocks = unsigned(std::min<int64_t>(tiles, kMostTiles));
  if (p.in == DType::f32)
    compare_f32<<<blocks, 32, 0, stream>>>(p, d, different);
  else if (p.out == DType::f32)
    compare_bf16<float><<<blocks, 32, 0, stream>>>(p, d, different);
  else
    compare_bf16<__nv_bfloat16><<<blocks, 32, 0, stream>>>(p, d, different);
}

void fill_test_values(cudaStream_t stream, void* to, DType dtype, int64_t count, uint32_t seed, int power) {
  const unsigned blocks = unsigned(std::min<int64_t>((count + 255) / 256, 4096));
  if (dtype == DType::f32)
    fill_values<<<blocks, 256, 0, stream>>>(static_cast<float*>(to), count, seed, power);
  else
    fill_values<<<blocks, 256, 0, stream>>>(static_cast<__nv_bfloat16*>(to), count, seed, power);
}

void fill_cancelling(cudaStream_t stream, void* to, const CancellingOperand& operand, uint32_t seed) {
  const unsigned blocks = unsigned(std::min<int64_t>((operand.rows * operand.columns + 255) / 256, 4096));
  if (operand.dtype == DType::f32)
    fill_halves<<<blocks, 256, 0, stream>>>(static_cast<float*>(to), operand, seed);
  else
    fill_halves<<<blocks, 256, 0, stream>>>(static_cast<__nv_bfloat16*>(to), operand, seed);
}

}  // namespace weft::cuda
