#include "weft/ops/matmul/cuda/persistent.h"

#include "weft/ops/matmul/cuda/few_rows.h"
#include "weft/ops/matmul/cuda/persistent_epilogues.cuh"
#include "weft/tile/cuda/column_sums.cuh"
#include "weft/tile/cuda/launch.h"

namespace weft::cuda {
namespace {

using T16 = __nv_bfloat16;

// Columns of tiles that run at the same time. The 132 multiprocessors of an H200 run 2 x 132 tiles, so about sixteen rows of tiles run too,
// and each K block of a and b is read from L2 about sixteen times.
constexpr int64_t kColumnsAtOnce = 16;

constexpr int kCluster = 1;
using AnyTiles = PersistentMatmul<false, kCluster>;
int64_t rows_of_tiles(const MatmulPlan& plan) { return (plan.M + AnyTiles::kM - 1) / AnyTiles::kM; }

bool rows_aligned(const View& view, const MatmulPlan::Matrix& m) {
  return aligned16(data<char>(view)) && m.row * int64_t(sizeof(T16)) % 16 == 0;
}

// other: the matrix besides c that the epilogue reads or writes; may be absent.
template <bool kTransposed, class Epilogue>
void launch_tiles(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan, const View& other, int64_t other_row,
                  const Epilogue& epilogue) {
  using Tiles = PersistentMatmul<kTransposed, kCluster>;
  const int64_t row_tiles = (rows_of_tiles(plan) + kCluster - 1) / kCluster, column_tiles = (plan.N + Tiles::kN - 1) / Tiles::kN;
  CUtensorMap a, b, c, with{};
  const bool mapped = map_matrix(a, data<T16>(args.a), plan.M, plan.K, plan.a.row, Tiles::kM) &&
                      (kTransposed ? map_matrix(b, data<T16>(args.b), plan.N, plan.K, plan.b.row, Tiles::kBoxOfB)
                                   : map_matrix(b, data<T16>(args.b), plan.K, plan.N, plan.b.row, Tiles::kBoxOfB)) &&
                      map_matrix(c, data<T16>(args.c), plan.M, plan.N, plan.c.row, Tiles::Box::kRows) &&
                      (!other || map_matrix(with, data<T16>(other), plan.M, plan.N, other_row, Tiles::Box::kRows));
  if (!mapped) fail(ErrorCode::device_fault, args.kOp, "the driver refuses to map operands of ", plan.M, "x", plan.N, "x", plan.K);
  const PersistentMatmulParams p{.M = int(plan.M),
                                 .N = int(plan.N),
                                 .k_blocks = int((plan.K + Tiles::kK - 1) / Tiles::kK),
                                 .row_tiles = int(row_tiles),
                                 .column_tiles = int(column_tiles),
                                 .columns_at_once = int(std::min(column_tiles, kColumnsAtOnce))};
  const Launch launch(stream, args.kOp, {&args.a, &args.b, &args.c});
  launch(unsigned(std::min<int64_t>(row_tiles * column_tiles, multiprocessors(stream) / kCluster) * kCluster), Tiles::kThreads,
         Tiles::kBytes, matmul_persistent<Tiles, Epilogue>, a, b, c, with, p, epilogue);
}
template <class Epilogue>
void launch_tiles(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan, const View& other, int64_t other_row,
                  const Epilogue& epilogue) {
  if (of(stream).planned()) return;  // a planned device has no driver that could make maps
  args.transpose_b ? launch_tiles<true>(stream, args, plan, other, other_row, epilogue)
                   : launch_tiles<false>(stream, args, plan, other, other_row, epilogue);
}

// c = product f'(slope_of), and c's column sums, added from one partial row per warp and row of tiles.
void multiply_by_slope(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan) {
  const int64_t P = args.column_sums ? rows_of_tiles(plan) * kPartialRows : 0;
  const Scratch<float> partial(stream, P * plan.N);
  launch_tiles(stream, args, plan, args.slope_of, plan.slope_of.row,
               SlopeEpilogue<Activation::gelu_tanh>{P > 0 ? partial.data() : nullptr});
  if (P > 0) sum_partials(Launch(stream, args.kOp, {&args.column_sums}), partial.data(), P, plan.N, data<float>(args.column_sums));
}

}  // namespace

bool takes_persistent(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan) {
  using Tiles = AnyTiles;
  const auto aligned = [](const View& view, const MatmulPlan::Matrix& m) { return !view || rows_aligned(view, m); };
  if (!of(stream).planned()) cudaSetDevice(of(stream).index());  // compiled_for() asks about the current one
  return args.activation == Activation::gelu_tanh && args.a.dtype == DType::bf16 && args.c.dtype == DType::bf16 && plan.batch() == 1 &&
         !args.transpose_a && args.alpha == 1 && args.beta == 0 && plan.M > kFewRows && plan.K > 0 && plan.N > 0 && plan.N % 2 == 0 &&
         aligned16(data<char>(args.bias)) && aligned(args.a, plan.a) && aligned(args.b, plan.b) && aligned(args.c, plan.c) &&
         aligned(args.pre, plan.pre) && aligned(args.slope_of, plan.slope_of) && std::max({plan.M, plan.N, plan.K}) < (int64_t(1) << 30) &&
         rows_of_tiles(plan) * ((plan.N + Tiles::kN - 1) / Tiles::kN) < (int64_t(1) << 30) &&
         Tiles::kBytes + kStaticShared <= shared_memory(stream) &&
         compiled_for(matmul_persistent<Tiles, ActivationEpilogue<Activation::gelu_tanh>>, Tiles::kThreads) &&
         (of(stream).planned() || encode_map());
}

void multiply_persistent(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan) {
  if (args.slope_of) return multiply_by_slope(stream, args, plan);
  const bool wide_bias = args.bias && args.bias.dtype == DType::f32;
  launch_tiles(stream, args, plan, args.pre, plan.pre.row,
               ActivationEpilogue<Activation::gelu_tanh>{data<char>(args.bias), wide_bias, bool(args.pre)});
}

}  // namespace weft::cuda
