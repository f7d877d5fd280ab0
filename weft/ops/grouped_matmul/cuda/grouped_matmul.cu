#include "weft/ops/grouped_matmul/grouped_matmul.h"

#include "weft/ops/grouped_matmul/cuda/hopper.cuh"
#include "weft/tile/cuda/launch.h"

namespace weft::cuda {
namespace {

using T16 = __nv_bfloat16;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Whether rows of `columns` elements, `stride` apart, consist of aligned 16-byte pieces.
bool whole_pieces(const View& view, int64_t columns, int64_t stride) {
  return aligned16(data<char>(view)) && columns % 8 == 0 && stride % 8 == 0;
}

// The size of the grid's second axis.
unsigned row_blocks(const GroupedParams& p, int64_t rows) {
  const int64_t tiles = most_row_tiles(p.rows.P, p.rows.E, rows);
  if (tiles > 65535)
    fail(ErrorCode::unsupported, GroupedMatmulArgs::kOp, p.rows.P, " rows for ", p.rows.E, " experts are more than a launch can have here");
  return unsigned(tiles);
}

template <class Tiles>
void launch_small(const Launch& launch, const GroupedMatmulArgs& a, const GroupedParams& p) {
  launch(dim3(unsigned(ceil_div(p.N, Tiles::kN)), row_blocks(p, Tiles::kM)), Tiles::kThreads, Tiles::kBytes, grouped_mma<Tiles>,
         data<T16>(a.a), data<T16>(a.b), data<T16>(a.c), p);
}

// Launches the Hopper kernel. Returns false if the GPU, the alignment or the driver does not support it.
template <bool kTransposed>
bool launch_hopper(Stream& stream, const Launch& launch, const GroupedMatmulArgs& a, const GroupedParams& p) {
  using Tiles = GroupedTiles<kTransposed>;
  const bool aligned = p.aligned_a && p.aligned_b && p.N % 8 == 0 && p.c_stride % 8 == 0 && aligned16(data<char>(a.c));
  if (!aligned || p.K == 0 || Tiles::kBytes + kStaticShared > shared_memory(stream) ||
      !compiled_for(grouped_hopper<Tiles>, Tiles::kThreads))
    return false;
  View rows = a.a, matrices = a.b;  // as map_heads has them: [1, P, 1, K] and [E, N, 1, K], or [E, K, 1, N]
  rows.shape = {1, p.rows.P, 1, p.K}, rows.strides = {p.a_stride, p.a_stride, p.a_stride, 1};
  const int64_t high = a.b.shape[1], wide = a.b.shape[2];
  matrices.shape = {p.rows.E, high, 1, wide}, matrices.strides = {high * wide, wide, wide, 1};
  CUtensorMap a_map, b_map;
  if (of(stream).planned()) return true;
  if (!map_heads(a_map, rows, p.rows.P, Tiles::kM) || !map_heads(b_map, matrices, high, kTransposed ? Tiles::kN : Tiles::kK)) return false;
  launch(unsigned(multiprocessors(stream)), Tiles::kThreads, Tiles::kBytes, grouped_hopper<Tiles>, a_map, b_map, data<T16>(a.c), p);
  return true;
}

template <bool kTransposed>
void multiply(Stream& stream, const Launch& launch, const GroupedMatmulArgs& a, const GroupedParams& p) {
  if (a.a.dtype == DType::f32) {
    return launch(dim3(unsigned(ceil_div(p.N, kSimtSide)), row_blocks(p, kSimtSide)), 256, 0, grouped_simt<kTransposed>, data<float>(a.a),
                  data<float>(a.b), data<float>(a.c), p);
  }
  // With up to about sixteen rows per expert the time is that of reading the matrices, which many small tiles do best. The order of sums is
  // the same in all kernels.
  constexpr int64_t kFew = 16, kSome = 48;
  if (p.rows.P <= kFew * p.rows.E || p.rows.P <= kSome) return launch_small<SmallTiles<kTransposed, 16>>(launch, a, p);
  if (!launch_hopper<kTransposed>(stream, launch, a, p)) launch_small<SmallTiles<kTransposed, 64>>(launch, a, p);
}

}  // namespace

void grouped_matmul(Stream& stream, const GroupedMatmulArgs& a) {
  const Rows left = as_rows(a.a, a.kOp, "a"), c = as_rows(a.c, a.kOp, "c");
  const Launch launch(stream, a.kOp, {&a.a, &a.b, &a.c});
  const int64_t E = a.b.shape[0], P = c.rows, K = a.a.shape[1], N = c.columns, wide = a.b.shape[2];
  if (P * N == 0) return;
  check(E * K * N < int64_t(1) << 40 && std::max(K, N) < int64_t(1) << 30, a.kOp, "matrices of ", a.b.shape, " are too large");
  const GroupedParams p{.rows = {data<int32_t>(a.starts), int(E), int(P)},
                        .K = int(K),
                        .N = int(N),
                        .a_stride = left.stride,
                        .c_stride = c.stride,
                        .bias = a.bias ? data<char>(a.bias) : nullptr,
                        .wide_bias = a.bias && a.bias.dtype == DType::f32,
                        .aligned_a = whole_pieces(a.a, K, left.stride),
                        .aligned_b = whole_pieces(a.b, wide, wide),
                        .fault = launch.fault(),
                        .op = launch.op()};
  a.transpose_b ? multiply<true>(stream, launch, a, p) : multiply<false>(stream, launch, a, p);
}

}  // namespace weft::cuda
