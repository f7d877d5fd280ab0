// Matmuls of few rows of x. Every block holds all of them in shared memory, so the residual sum and norm before the matmul and the ops
// after it are fused into one launch. The blocks stream tiles of sixteen rows of W. Each computing warp has its own loading warp, so that
// neither waits for the other's instructions; loading begins before the previous kernel has ended (overlap.cuh).
#pragma once

#include "weft/ops/row_norm/row_team.cuh"
#include "weft/tile/cuda/mma.cuh"
#include "weft/tile/cuda/overlap.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {

// The left operand: the rows n = norm(x + delta), or x itself if there is no gain w.
struct HeldInput {
  const __nv_bfloat16 *x, *delta;
  const void* w;  // the gain [K], bf16, or f32 if wide
  __nv_bfloat16* h;
  int64_t x_row, delta_row, h_row;
  int M, K;
  float eps;
  bool wide;
  bool ahead;  // the previous kernel does not write W, w or other operands of Tiles
};

// Eight rows of W, `stride` elements apart; only the first `rows` exist. A tile is two such runs.
struct HeldRun {
  const __nv_bfloat16* at;
  int64_t stride;
  int rows;
};
struct HeldTile {
  HeldRun first, second;
};

// Shared memory of a block: the rows of x and a row of zeros, the gain in f32, sums of the norm, barriers, then a ring of stages for each
// pair of warps. Rows are padded by sixteen bytes, so that eight of them lie in different banks.
struct HeldMemory {
  static constexpr int kDepth = 256, kPitch = kDepth * 2 + 16, kStage = 16 * kPitch, kMostStages = 8;
  int M, K, pairs, stages;
  bool normed;

  __host__ __device__ int x_pitch() const { return K * 2 + 16; }
  __host__ __device__ int gain() const { return (M + 1) * x_pitch(); }
  __host__ __device__ int sums() const { return gain() + (normed ? K * 4 : 0); }
  __host__ __device__ int barriers() const { return sums() + M * kMostTeamWarps * 4; }
  __host__ __device__ int rings() const { return barriers() + pairs * kMostStages * 16; }
  __host__ __device__ int bytes() const { return rings() + pairs * stages * kStage; }
};

inline constexpr int kHeldPairs = 4, kHeldThreads = 64 * kHeldPairs;  // warps that compute, then those that load for them

// Barriers in shared memory (mbarrier): a phase ends when all expected arrivals have occurred.
__device__ __forceinline__ void stage_init(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void stage_arrive(uint32_t barrier) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}\n" ::"r"(barrier) : "memory");
}
// Arrives when all copies that this thread has started are complete.
__device__ __forceinline__ void stage_arrive_with_copies(uint32_t barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(barrier) : "memory");
}
// Waits until the phase of this parity has ended.
__device__ __forceinline__ void stage_wait(uint32_t barrier, uint32_t parity) {
  uint32_t done = 0;
  while (!done)
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(done)
                 : "r"(barrier), "r"(parity)
                 : "memory");
}

// The current stage of a pair's ring, and the number of completed rounds.
struct HeldStage {
  int index = 0;
  uint32_t turn = 0;
  __device__ __forceinline__ void next(int stages) {
    if (++index == stages) index = 0, turn ^= 1;
  }
};

struct HeldRing {
  uint32_t stages, barriers;
  __device__ __forceinline__ uint32_t at(const HeldStage& s) const { return stages + uint32_t(s.index) * HeldMemory::kStage; }
  __device__ __forceinline__ uint32_t full(const HeldStage& s) const { return barriers + uint32_t(s.index) * 16; }
  __device__ __forceinline__ uint32_t empty(const HeldStage& s) const { return full(s) + 8; }
};

// The loading warp: fills each stage with kDepth elements of a tile's sixteen rows, one row per copy.
class HeldLoader {
 public:
  __device__ __forceinline__ HeldLoader(const HeldRing& ring, int K, int stages) : ring_(ring), K_(K), stages_(stages) {}

  // Whether the next stage is still unused, so that loading need not wait.
  __device__ __forceinline__ bool fresh() const { return issued_ < stages_; }
  __device__ __forceinline__ void load(const HeldTile& tile, int k0) {
    if (issued_ < stages_)
      ++issued_;
    else
      stage_wait(ring_.empty(stage_), stage_.turn ^ 1);
    const int lane = int(threadIdx.x) % 32, column = k0 + lane * 8;
    const uint32_t to = ring_.at(stage_) + uint32_t(lane * 16);
    if (column < K_) {
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        const auto copy = [&](const HeldRun& run, int to_row) {  // rows that do not exist are copies of the last
          copy_async(to + uint32_t(to_row * HeldMemory::kPitch), run.at + min(r, run.rows - 1) * run.stride + column);
        };
        copy(tile.first, r), copy(tile.second, r + 8);
      }
    }
    stage_arrive_with_copies(ring_.full(stage_));
    stage_.next(stages_);
  }

 private:
  HeldRing ring_;
  int K_, stages_, issued_ = 0;
  HeldStage stage_;
};

// Stores the operands that do not depend on the previous kernel: the row of zeros and the gain.
__device__ __forceinline__ void hold_constants(unsigned char* memory, const HeldMemory& at, const HeldInput& p) {
  const int thread = int(threadIdx.x), chunks = p.K / 8;
  RowPiece zeros;
#pragma unroll
  for (int e = 0; e < 8; ++e) zeros.set(e, 0.0f);
  for (int c = thread; c < chunks; c += kHeldThreads) reinterpret_cast<RowPiece*>(memory + p.M * at.x_pitch())[c] = zeros;
  if (!p.w) return;
  float* gain = reinterpret_cast<float*>(memory + at.gain());
  for (int k = thread; k < p.K; k += kHeldThreads)
    gain[k] = p.wide ? static_cast<const float*>(p.w)[k] : to_float(static_cast<const __nv_bfloat16*>(p.w)[k]);
}

// Stores the rows of x, or their norm. Called by all threads.
__device__ __forceinline__ void hold_rows(unsigned char* memory, const HeldMemory& at, const HeldInput& p) {
  constexpr int kAtOnce = 4;  // pieces in flight per thread
  const int thread = int(threadIdx.x), chunks = p.K / 8, count = p.M * chunks;
  const auto row = [&](int r) { return reinterpret_cast<RowPiece*>(memory + r * at.x_pitch()); };
  for (int first = thread; first < count; first += kAtOnce * kHeldThreads) {
    RowPiece piece[kAtOnce], more[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kHeldThreads, r = i / chunks, c = i - r * chunks;
      if (i >= count) continue;
      piece[j] = load_chunk<__nv_bfloat16, 8>(p.x + r * p.x_row + c * 8);
      if (p.delta) more[j] = load_chunk<__nv_bfloat16, 8>(p.delta + r * p.delta_row + c * 8);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int i = first + j * kHeldThreads, r = i / chunks, c = i - r * chunks;
      if (i >= count) continue;
      if (p.delta) {
#pragma unroll
        for (int e = 0; e < 8; ++e) piece[j].set(e, piece[j][e] + more[j][e]);
        if (blockIdx.x == 0) store_chunk(piece[j], p.h + r * p.h_row + c * 8);
      }
      row(r)[c] = piece[j];
    }
  }
  __syncthreads();
  if (!p.w) return;
  float* sums = reinterpret_cast<float*>(memory + at.sums());
  const float* gain = reinterpret_cast<const float*>(memory + at.gain());
  const int warps = row_team(p.K) / 32;
  for (int i = thread / 32; i < p.M * warps; i += kHeldThreads / 32) {
    const int r = i / warps, w = i - r * warps;
    const float sum = team_warp_squares(row(r), chunks, w, warps);
    if (thread % 32 == 0) sums[i] = sum;
  }
  __syncthreads();
  for (int i = thread; i < count; i += kHeldThreads) {
    const int r = i / chunks, c = i - r * chunks;
    const float rstd = row_rstd(team_total(sums + r * warps, warps), p.K, p.eps);
    RowPiece piece = row(r)[c];
    const auto g = load_chunk<float, 8>(gain + c * 8);
#pragma unroll
    for (int e = 0; e < 8; ++e) piece.set(e, piece[e] * rstd * g[e]);
    row(r)[c] = piece;
  }
  __syncthreads();
}

// The operands of one step of kStep elements of K: four blocks of 16 of a tile's rows, and of eight rows of x. They are loaded while the
// previous step is multiplied, because the multiply-adds form a dependent chain that should not also wait for loads.
struct HeldStep {
  static constexpr int kDepth = 64, kPerStage = HeldMemory::kDepth / kDepth;
  FragmentA a[4];
  uint32_t b[2][4];

  __device__ __forceinline__ void load(uint32_t w, uint32_t x) {
#pragma unroll
    for (int i = 0; i < 2; ++i) load_matrices(b[i], x + uint32_t(i * 64));
#pragma unroll
    for (int i = 0; i < 4; ++i) load_matrices(a[i].r, w + uint32_t(i * 32));
  }
  __device__ __forceinline__ void add_to(FragmentC& sum) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) multiply_add(sum, a[i], FragmentB{{b[i / 2][i % 2 * 2], b[i / 2][i % 2 * 2 + 1]}});
  }
};

// A tile's sums over K, by one warp. `stage`: the tile's first stage; advanced to the next tile's. w: this lane's offset in a stage.
__device__ __forceinline__ FragmentC sum_tile(const HeldRing& ring, HeldStage& stage, int stages, uint32_t w, uint32_t x, int K, int lane) {
  const int steps = K / HeldStep::kDepth;
  FragmentC sum = {};
  HeldStep step[2];
  stage_wait(ring.full(stage), stage.turn);
  step[0].load(ring.at(stage) + w, x);
#pragma unroll 1
  for (int first = 0; first < steps; first += HeldStep::kPerStage) {
    HeldStage next = stage;
    next.next(stages);
#pragma unroll
    for (int j = 0; j < HeldStep::kPerStage; ++j) {
      if (first + j + 1 < steps) {
        constexpr int kBytes = HeldStep::kDepth * 2;
        if (j + 1 == HeldStep::kPerStage) stage_wait(ring.full(next), next.turn);
        const uint32_t at = j + 1 == HeldStep::kPerStage ? ring.at(next) : ring.at(stage) + uint32_t((j + 1) * kBytes);
        step[(j + 1) % 2].load(at + w, x + uint32_t((first + j + 1) * kBytes));
      }
      step[j % 2].add_to(sum);
      if (first + j + 1 >= steps) break;
    }
    __syncwarp();  // all lanes have read the stage
    if (lane == 0) stage_arrive(ring.empty(stage));
    stage = next;
  }
  return sum;
}

template <class Tiles>
struct HeldParams {
  HeldInput in;
  HeldMemory memory;
  Tiles tiles;
};

// Equation: C = n W^T by tiles of two times eight rows of W; n = norm(x + delta) or x; h = x + delta; then the epilogue of Tiles.
// Layout:   x, delta, h [M, K] with row strides, w [K], W as in Tiles; rows aligned to sixteen bytes.
// Order:    the norm as in norm_forward (row_team.cuh). K in blocks of 16, one mma after the other from zero, as in few_rows_bf16.
// Requires: kHeldThreads threads, M <= 8, K a multiple of 64. The previous kernel may write x and delta, and W, w and the operands of Tiles
//           only if not `ahead`.
// Traffic:  W once; x, delta and w once a block, from L2.
template <class Tiles>
__global__ void __launch_bounds__(kHeldThreads) multiply_held(const __grid_constant__ HeldParams<Tiles> p) {
  extern __shared__ __align__(128) unsigned char shared[];
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32, pair = warp % kHeldPairs;
  const bool loads = warp >= kHeldPairs, works = pair < p.memory.pairs;
  const int first = int(blockIdx.x) * p.memory.pairs + pair, step = int(gridDim.x) * p.memory.pairs, count = p.tiles.count();
  const uint32_t base = shared_address(shared);
  const HeldRing ring{base + uint32_t(p.memory.rings() + pair * p.memory.stages * HeldMemory::kStage),
                      base + uint32_t(p.memory.barriers() + pair * HeldMemory::kMostStages * 16)};
  let_next_kernel_start();
  if (!p.in.ahead) wait_for_kernel_before();
  if (loads && works) {
    if (lane < p.memory.stages) {
      stage_init(ring.full({lane, 0}), 32);
      stage_init(ring.empty({lane, 0}), 1);
    }
    __syncwarp();
  }
  HeldLoader loader(ring, p.in.K, p.memory.stages);
  int tile = first, k0 = 0;  // position of the next load
  const auto load_next = [&] {
    loader.load(p.tiles.tile(tile), k0);
    k0 += HeldMemory::kDepth;
    if (k0 >= p.in.K) k0 = 0, tile += step;
  };
  if (loads && works)
    while (tile < count && loader.fresh()) load_next();
  hold_constants(shared, p.memory, p.in);
  const auto finish_first = p.tiles.begin(min(first, count - 1), lane, p.in.M);
  wait_for_kernel_before();
  hold_rows(shared, p.memory, p.in);  // its __syncthreads also makes the initialized stage barriers visible
  if (!works) return;
  if (loads) {
    while (tile < count) load_next();
    copies_end();
    copies_wait<0>();
    return;
  }
  const uint32_t w = uint32_t(lane % 16 * HeldMemory::kPitch + lane / 16 * 16);
  const uint32_t x = base + uint32_t(min(lane % 8, p.in.M) * p.memory.x_pitch() + lane / 8 * 16);
  HeldStage stage;
  if (first < count) finish_first(sum_tile(ring, stage, p.memory.stages, w, x, p.in.K, lane));
#pragma unroll 1
  for (int t = first + step; t < count; t += step) {
    const auto finish = p.tiles.begin(t, lane, p.in.M);
    finish(sum_tile(ring, stage, p.memory.stages, w, x, p.in.K, lane));
  }
}

}  // namespace weft::cuda
