#include "weft/ops/matmul/cuda/held_rows.h"
#include "weft/ops/norm_gated/norm_gated.h"
#include "weft/tile/cuda/sigmoid.cuh"

namespace weft::cuda {
namespace {

// A tile is eight rows of the weight of gate and the same eight rows of up, so that a lane has both sums of an element.
struct GatedTiles {
  const __nv_bfloat16 *gate, *up, *gate_bias, *up_bias;
  __nv_bfloat16* y;
  int64_t gate_row, up_row, y_row;
  int F;

  __host__ __device__ int count() const { return (F + 7) / 8; }
  __device__ __forceinline__ HeldTile tile(int t) const {
    return {{gate + t * 8 * gate_row, gate_row, F - t * 8}, {up + t * 8 * up_row, up_row, F - t * 8}};
  }
  __device__ __forceinline__ auto begin(int t, int lane, int M) const {
    return [this, n = t * 8 + lane_row(lane), lane, M](const FragmentC& sum) {
      if (n >= F) return;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int m = lane_column(lane) + i;
        if (m >= M) continue;
        const auto rounded = [&](float x, const __nv_bfloat16* bias) {
          return to_float(from_float<__nv_bfloat16>(bias ? x + to_float(bias[n]) : x));
        };
        const float g = rounded(sum.x[i], gate_bias), u = rounded(sum.x[i + 2], up_bias);
        y[m * y_row + n] = from_float<__nv_bfloat16>(g * sigmoid_of(g) * u);
      }
    };
  }
};

}  // namespace

void norm_gated(Stream& stream, const NormGatedArgs& a) {
  if (a.y.numel() == 0) return;
  check_weight_rows(a.kOp, {&a.gate, &a.up});
  const GatedTiles tiles{data<__nv_bfloat16>(a.gate),
                         data<__nv_bfloat16>(a.up),
                         data<__nv_bfloat16>(a.gate_bias),
                         data<__nv_bfloat16>(a.up_bias),
                         data<__nv_bfloat16>(a.y),
                         a.gate.strides[0],
                         a.up.strides[0],
                         a.y.strides[0],
                         int(a.gate.shape[0])};
  launch_held(stream, a.kOp, held_input(a), tiles);
}

}  // namespace weft::cuda
