#include "weft/ops/matmul/cuda/epilogue.cuh"
#include "weft/ops/matmul/cuda/few_rows.h"
#include "weft/ops/matmul/cuda/held_rows.h"

namespace weft::cuda {
namespace {

template <class Out>
struct Product {
  const __nv_bfloat16* w;
  const void* bias;
  Out* c;
  int64_t w_row, c_row;
  int N, first_tile;
  bool wide_bias;
};

// A tile is sixteen rows of the W of one matmul.
template <class Out>
struct ProductTiles {
  Product<Out> product[kFewRowsMembers];
  Finish<Out> finish;
  int products, tiles;

  __host__ __device__ int count() const { return tiles; }
  __device__ __forceinline__ const Product<Out>& of(int t) const {
    int i = 0;
    while (i + 1 < products && t >= product[i + 1].first_tile) ++i;
    return product[i];
  }
  __device__ __forceinline__ HeldTile tile(int t) const {
    const Product<Out>& p = of(t);
    const int n = (t - p.first_tile) * 16, left = p.N - n;
    const HeldRun first{p.w + n * p.w_row, p.w_row, left};
    return {first, left > 8 ? HeldRun{first.at + 8 * p.w_row, p.w_row, left - 8} : first};
  }
  __device__ __forceinline__ auto begin(int t, int lane, int M) const {
    return [this, &p = of(t), t, lane, M](const FragmentC& sum) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int n = (t - p.first_tile) * 16 + FragmentC::row(i, lane), m = FragmentC::column(i, lane);
        if (n < p.N && m < M) finish(sum.x[i], p.bias, p.wide_bias, n, p.c + m * p.c_row + n, nullptr);
      }
    };
  }
};

bool rows_aligned(const View& view, int64_t row) { return aligned16(data<char>(view)) && row % 8 == 0; }

HeldInput input(const MatmulArgs& a, bool ahead) {
  const MatmulPlan at = plan(a);
  return {.x = data<__nv_bfloat16>(a.a),
          .delta = nullptr,
          .w = nullptr,
          .h = nullptr,
          .x_row = at.a.row,
          .delta_row = 0,
          .h_row = 0,
          .M = int(at.M),
          .K = int(at.K),
          .eps = 0,
          .wide = false,
          .ahead = ahead};
}

template <class Out>
void multiply(Stream& stream, std::span<const MatmulArgs> members, const HeldInput& in) {
  const MatmulArgs& a = members.front();
  ProductTiles<Out> tiles{.product = {}, .finish = {a.alpha, a.beta, a.activation}, .products = int(members.size()), .tiles = 0};
  for (size_t i = 0; i < members.size(); ++i) {
    const MatmulArgs& m = members[i];
    const MatmulPlan at = plan(m);
    tiles.product[i] = {data<__nv_bfloat16>(m.b),
                        data<char>(m.bias),
                        data<Out>(m.c),
                        at.b.row,
                        at.c.row,
                        int(at.N),
                        tiles.tiles,
                        m.bias && m.bias.dtype == DType::f32};
    tiles.tiles += int((at.N + 15) / 16);
  }
  launch_held(stream, a.kOp, in, tiles);
}

}  // namespace

bool multiply_held(Stream& stream, std::span<const MatmulArgs> members, bool ahead) {
  const MatmulArgs& a = members.front();
  const MatmulPlan first = plan(a);
  if (a.a.dtype != DType::bf16 || !a.transpose_b || first.M > 8 || first.K % 64 != 0 || first.K > (1 << 16) ||
      !rows_aligned(a.a, first.a.row))
    return false;
  for (const MatmulArgs& m : members)
    if (m.pre || !rows_aligned(m.b, plan(m).b.row)) return false;
  const HeldInput in = input(a, ahead);
  if (!held_fits(stream, in)) return false;
  a.c.dtype == DType::f32 ? multiply<float>(stream, members, in) : multiply<__nv_bfloat16>(stream, members, in);
  return true;
}

}  // namespace weft::cuda
