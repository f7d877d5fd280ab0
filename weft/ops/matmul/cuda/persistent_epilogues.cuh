// Epilogues of the persistent matmul: an activation, optionally storing its input, and an activation's gradient, optionally with column
// sums (the gradient of a bias).
//
// A warp has rows [16 w, 16 w + 16) of both halves of a tile, in boxes of 64 columns: box i is in half i % 2 at columns 64 (i / 2). It
// processes the boxes one after the other through shared memory, alternating between two buffers.
#pragma once

#include "weft/ops/matmul/cuda/epilogue.cuh"
#include "weft/ops/matmul/cuda/persistent.cuh"

namespace weft::cuda {

#if WEFT_HAS_WGMMA

// Base of the epilogues: one warp's view of its boxes.
template <class Tiles, class Params>
struct WarpBoxes {
  using Box = typename Tiles::Box;
  static constexpr int kBoxes = 2 * Tiles::kPanels;
  const Params& params;
  const CUtensorMap &c_map, &other_map;
  uint32_t boxes, barriers;
  int M, N, warp, lane;

  __device__ __forceinline__ Box c(int i) const { return {boxes + uint32_t(i % 2 * 2 * Box::kBytes)}; }
  __device__ __forceinline__ Box other(int i) const { return {c(i).base + Box::kBytes}; }
  __device__ __forceinline__ int row(const MatmulTile& tile, int i) const { return tile.row + i % 2 * 64 + warp * 16; }
  __device__ __forceinline__ static int column(const MatmulTile& tile, int i) { return tile.column + i / 2 * 64; }
  __device__ __forceinline__ bool inside(const MatmulTile& tile, int i) const { return row(tile, i) < M && column(tile, i) < N; }
  __device__ __forceinline__ static const float* sums_of(const float (&sums)[2][96], int i) { return &sums[i % 2][i / 2 * 32]; }
  // The address that this lane passes for four 8 x 8 matrices in 16 columns of a box: two below each other, then the next eight columns.
  __device__ __forceinline__ uint32_t matrices(const Box& box, int columns) const {
    return box.address(lane % 16, columns * 16 + lane / 16 * 8);
  }
};

// Stores two fragments of sums, 16 x 16, rounded to bf16, in 16 columns of a box.
__device__ __forceinline__ void store_fragments(uint32_t address, const float (&x)[8]) {
  store_matrices(address, {pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7])});
}

#endif  // WEFT_HAS_WGMMA

// pre = sum + bias, c = f(pre); if pre is kept, it is the other matrix.
template <Activation kActivation>
struct ActivationEpilogue {
  static constexpr int kBarriers = 0;  // per warp
  const void* bias;                    // may be null
  bool wide_bias;                      // the bias is f32
  bool keeps_pre;

#if WEFT_HAS_WGMMA
  // The bias at two columns; 0 beyond N.
  __device__ __forceinline__ float2 bias_pair(int column, int N) const {
    if (!bias || column >= N) return {0, 0};
    if (wide_bias) return *reinterpret_cast<const float2*>(static_cast<const float*>(bias) + column);
    const auto narrow = *reinterpret_cast<const __nv_bfloat162*>(static_cast<const __nv_bfloat16*>(bias) + column);
    return {to_float(narrow.x), to_float(narrow.y)};
  }

  template <class Tiles>
  struct Warp : WarpBoxes<Tiles, ActivationEpilogue> {
    __device__ __forceinline__ void begin(const MatmulTile&) {}

    __device__ __forceinline__ void operator()(const float (&sums)[2][96], const MatmulTile& tile) {
#pragma unroll
      for (int i = 0; i < this->kBoxes; ++i) {
        stores_wait<1>();  // lane 0 stores: this place's last box has been read
        __syncwarp();
        finish_box(this->sums_of(sums, i), tile, i);
        fence_for_wgmma();
        __syncwarp();
        if (this->lane != 0) continue;
        if (this->inside(tile, i)) {
          if (this->params.keeps_pre) store_box(this->other_map, this->other(i).base, this->row(tile, i), this->column(tile, i));
          store_box(this->c_map, this->c(i).base, this->row(tile, i), this->column(tile, i));
        }
        stores_end();  // an empty group, too: stores_wait counts groups
      }
    }

    __device__ __forceinline__ void finish_box(const float* x, const MatmulTile& tile, int i) const {
#pragma unroll
      for (int columns = 0; columns < 4; ++columns) {  // in groups of 16
        float y[8], z[8];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float2 bias = this->params.bias_pair(this->column(tile, i) + columns * 16 + half * 8 + lane_column(this->lane), this->N);
#pragma unroll
          for (int e = 0; e < 4; ++e) y[half * 4 + e] = x[columns * 8 + half * 4 + e] + (e % 2 ? bias.y : bias.x);
        }
        activate_all(y, z, kActivation);
        if (this->params.keeps_pre) store_fragments(this->matrices(this->other(i), columns), y);
        store_fragments(this->matrices(this->c(i), columns), z);
      }
    }
  };
#endif
};

inline constexpr int kPartialRows = 4;  // per row of tiles: one for each warp

// c = sum f'(x), and partial column sums of c. x is the other matrix, loaded one box ahead. Partial row 4 t + w [N] is the sum over the 32
// rows of warp w in row tile t, computed by the matrix unit as ones times the bf16 values, the upper half before the lower.
template <Activation kActivation>
struct SlopeEpilogue {
  static constexpr int kBarriers = 2;
  float* partial;  // [row tiles * 4, N]; may be null

#if WEFT_HAS_WGMMA
  template <class Tiles>
  struct Warp : WarpBoxes<Tiles, SlopeEpilogue> {
    uint32_t parity = 0;  // of both barriers, before the loads of a tile

    // Starts loading the first two boxes of x.
    __device__ __forceinline__ void begin(const MatmulTile& tile) {
      load(tile, 0);
      load(tile, 1);
    }
    __device__ __forceinline__ void load(const MatmulTile& tile, int i) const {
      const uint32_t barrier = this->barriers + uint32_t(i % 2 * 8);
      __syncwarp();  // this place's last box has been read
      if (this->lane != 0) return;
      barrier_arrive_expecting(barrier, Tiles::Box::kBytes);
      load_tile(this->other(i), this->other_map, barrier, this->row(tile, i), this->column(tile, i));
    }

    __device__ __forceinline__ void operator()(const float (&sums)[2][96], const MatmulTile& tile) {
#pragma unroll
      for (int i = 0; i < this->kBoxes; ++i) {
        stores_wait<1>();  // lane 0 stores: this place's last box has been read
        __syncwarp();
        barrier_wait(this->barriers + uint32_t(i % 2 * 8), parity ^ uint32_t(i / 2 % 2));
        finish_box(this->sums_of(sums, i), i);
        if (i + 2 < this->kBoxes) load(tile, i + 2);
        fence_for_wgmma();
        __syncwarp();
        if (this->lane == 0) {
          if (this->inside(tile, i)) store_box(this->c_map, this->c(i).base, this->row(tile, i), this->column(tile, i));
          stores_end();  // an empty group, too: stores_wait counts groups
        }
        if (i % 2 == 1 && this->params.partial) sum_rows(tile, i);
      }
      parity ^= uint32_t(Tiles::kPanels % 2);
    }

    __device__ __forceinline__ void finish_box(const float* x, int i) const {
#pragma unroll
      for (int columns = 0; columns < 4; ++columns) {  // sixteen of them
        uint32_t at[4];
        load_matrices(at, this->matrices(this->other(i), columns));
        float y[8];
#pragma unroll
        for (int e = 0; e < 8; e += 2) {
          const uint32_t two = at[e / 2];
          y[e] = x[columns * 8 + e] * slope_approx(__uint_as_float(two << 16), kActivation);
          y[e + 1] = x[columns * 8 + e + 1] * slope_approx(__uint_as_float(two & 0xffff0000u), kActivation);
        }
        store_fragments(this->matrices(this->c(i), columns), y);
      }
    }

    // Column sums of boxes i - 1 and i, which lie below each other.
    __device__ __forceinline__ void sum_rows(const MatmulTile& tile, int i) const {
      constexpr uint32_t kOnes = 0x3f803f80u;
      const FragmentA ones{{kOnes, kOnes, kOnes, kOnes}};
      float* const to = this->params.partial + int64_t(tile.row / Tiles::kM * kPartialRows + this->warp) * this->N + this->column(tile, i);
#pragma unroll
      for (int columns = 0; columns < 4; ++columns) {
        uint32_t upper[4], lower[4];
        load_matrices_transposed(upper, this->matrices(this->c(i - 1), columns));
        load_matrices_transposed(lower, this->matrices(this->c(i), columns));
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          FragmentC sum{};
          multiply_add(sum, ones, FragmentB{{upper[2 * half], upper[2 * half + 1]}});
          multiply_add(sum, ones, FragmentB{{lower[2 * half], lower[2 * half + 1]}});
          const int at = columns * 16 + half * 8 + lane_column(this->lane);
          if (this->lane < 4 && tile.row < this->M && this->column(tile, i) + at < this->N)
            *reinterpret_cast<float2*>(to + at) = {sum.x[0], sum.x[1]};
        }
      }
    }
  };
#endif
};

}  // namespace weft::cuda
