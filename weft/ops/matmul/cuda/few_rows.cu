#include "weft/ops/matmul/cuda/few_rows.h"

#include "weft/ops/matmul/cuda/few_rows.cuh"
#include "weft/tile/cuda/overlap.cuh"

namespace weft::cuda {
namespace {

template <class T>
bool rows_aligned(const View& view, int64_t row) {
  return aligned16(data<char>(view)) && row * int64_t(sizeof(T)) % 16 == 0;
}

template <class T, class Out>
FewRowsParams<T, Out> parameters(std::span<const MatmulArgs> members) {
  const MatmulArgs& a = members.front();
  const MatmulPlan first = plan(a);
  FewRowsParams<T, Out> p{.x = data<T>(a.a),
                          .x_row = first.a.row,
                          .M = int(first.M),
                          .K = int(first.K),
                          .members = int(members.size()),
                          .x_aligned = rows_aligned<T>(a.a, first.a.row),
                          .w_aligned = true,
                          .finish = {a.alpha, a.beta, a.activation},
                          .member = {}};
  for (size_t i = 0; i < members.size(); ++i) {
    const MatmulArgs& m = members[i];
    const MatmulPlan at = plan(m);
    p.w_aligned = p.w_aligned && rows_aligned<T>(m.b, at.b.row);
    p.member[i] = {data<T>(m.b),
                   data<char>(m.bias),
                   data<Out>(m.c),
                   data<Out>(m.pre),
                   at.b.row,
                   at.c.row,
                   at.pre.row,
                   int(at.N),
                   0,
                   m.bias && m.bias.dtype == DType::f32};
  }
  return p;
}

// One block for each kRows rows of each W and each kCols rows of X.
template <class Ring, class Params>
dim3 blocks_of(Params& p) {
  int blocks = 0;
  for (int i = 0; i < p.members; ++i) {
    p.member[i].first_block = blocks;
    blocks += (p.member[i].N + Ring::kRows - 1) / Ring::kRows;
  }
  return dim3(unsigned(blocks), unsigned((p.M + Ring::kCols - 1) / Ring::kCols));
}

// f.operator()<kCols>() with the smallest tile of x that holds M rows, or the largest.
template <class F>
void with_columns(int M, F&& f) {
  if (M <= 8) return f.template operator()<8>();
  if (M <= 16) return f.template operator()<16>();
  if (M <= 32) return f.template operator()<32>();
  return f.template operator()<64>();
}

// Blocks of 64 rows of W where that leaves no multiprocessor without one; else of 16.
template <class Out, bool kTransposed>
void launch_bf16(Stream& stream, const Launch& launch, const FewRowsParams<__nv_bfloat16, Out>& p) {
  int64_t N = 0;
  for (int i = 0; i < p.members; ++i) N += p.member[i].N;
  with_columns(p.M, [&]<int kCols>() {
    const auto with_rows = [&]<int kRows, int kDepth>() {
      using Ring = FewRowsRing<__nv_bfloat16, kTransposed, kRows, kCols, kDepth>;
      auto params = p;
      const dim3 blocks = blocks_of<Ring>(params);
      launch_overlapping(stream, launch.op(), blocks, kFewRowsThreads, Ring::kBytes, few_rows_bf16<Out, Ring>, params);
    };
    if (N >= int64_t(multiprocessors(stream)) * 48) return with_rows.template operator()<64, kCols <= 16 ? 128 : 64>();
    with_rows.template operator()<16, kCols <= 8 ? 256 : kCols <= 16 ? 128 : 64>();
  });
}

template <bool kTransposed>
void launch_f32(const Launch& launch, const FewRowsParams<float, float>& p) {
  const auto with_columns = [&]<int kCols>() {
    using Ring = FewRowsRing<float, kTransposed, 32, kCols, 32>;
    auto params = p;
    const dim3 blocks = blocks_of<Ring>(params);
    launch(blocks, kFewRowsThreads, Ring::kBytes, few_rows_f32<Ring>, params);
  };
  p.M == 1 ? with_columns.template operator()<1>() : with_columns.template operator()<8>();
}

template <class Out>
void launch_bf16(Stream& stream, const Launch& launch, std::span<const MatmulArgs> members, bool ahead) {
  auto p = parameters<__nv_bfloat16, Out>(members);
  p.ahead = ahead;
  members.front().transpose_b ? launch_bf16<Out, true>(stream, launch, p) : launch_bf16<Out, false>(stream, launch, p);
}

}  // namespace

void multiply_few_rows(Stream& stream, std::span<const MatmulArgs> members, bool ahead) {
  const MatmulArgs& a = members.front();
  if (multiply_held(stream, members, ahead)) return;
  const Launch launch(stream, a.kOp, {&a.a, &a.b, &a.c});
  if (a.a.dtype == DType::f32) {
    const auto p = parameters<float, float>(members);
    return a.transpose_b ? launch_f32<true>(launch, p) : launch_f32<false>(launch, p);
  }
  a.c.dtype == DType::f32 ? launch_bf16<float>(stream, launch, members, ahead) : launch_bf16<__nv_bfloat16>(stream, launch, members, ahead);
}

}  // namespace weft::cuda
