#include "weft/ops/matmul/cuda/held_rows.h"
#include "weft/ops/norm_heads/norm_heads.h"
#include "weft/tile/cuda/pages.cuh"

namespace weft::cuda {
namespace {

struct Projection {
  const __nv_bfloat16 *weight, *bias;
  int64_t row;
  int heads;
};

// The cache position of each sequence's new token.
struct NewPositions {
  const int32_t* start;
  int capacity, table;  // positions of the cache and of the RoPE table (without RoPE: the same)
  Fault* fault;
  const char* op;

  // The position for sequence b, or -1 if it is out of range, which the thread with `first` reports.
  __device__ __forceinline__ int of(int b, bool first) const {
    const int at = start[b];
    if (at >= 0 && at < capacity && at < table) return at;
    if (first && (at < 0 || at >= capacity)) report(fault, Fault::start_out_of_range, op, at, b, capacity - 1);
    if (first && at >= table && at < capacity) report(fault, Fault::position_out_of_range, op, at, b, table);
    return -1;
  }
};

// A tile is eight rows of a head's first half and the paired eight rows of its second half, so that a lane has both elements of a RoPE
// pair.
struct HeadTiles {
  Projection q, k, v;
  Heads<__nv_bfloat16> q_at;  // one row per sequence
  CachedHeads<__nv_bfloat16> k_cache, v_cache;
  const float *cos, *sin;  // [positions, D / 2]; null: no RoPE
  __nv_bfloat16* raw;      // [rows, heads of q and k, D]: receives q and k without RoPE; null: q_at and k_cache receive them with RoPE
  NewPositions positions;
  int D;

  __host__ __device__ int per_head() const { return D / 16; }
  __host__ __device__ int count() const { return (q.heads + k.heads + v.heads) * per_head(); }

  enum class Kind { q, k, v };
  struct Place {
    Kind kind;
    int head, pair;  // the first of eight pairs
  };
  __device__ __forceinline__ Place place(int t) const {
    const int head = t / per_head(), pair = (t - head * per_head()) * 8;
    if (head < q.heads) return {Kind::q, head, pair};
    if (head < q.heads + k.heads) return {Kind::k, head - q.heads, pair};
    return {Kind::v, head - q.heads - k.heads, pair};
  }
  __device__ __forceinline__ __nv_bfloat16* place_of(const Place& at, int m, int position) const {
    if (at.kind == Kind::v) return v_cache.row(m, position, at.head);
    if (raw) return raw + (int64_t(m) * (q.heads + k.heads) + (at.kind == Kind::k ? q.heads : 0) + at.head) * D;
    return at.kind == Kind::q ? q_at.row(m, 0, at.head) : k_cache.row(m, position, at.head);
  }
  __device__ __forceinline__ const Projection& of(Kind kind) const { return kind == Kind::q ? q : kind == Kind::k ? k : v; }
  __device__ __forceinline__ HeldTile tile(int t) const {
    const Place at = place(t);
    const Projection& p = of(at.kind);
    const __nv_bfloat16* first = p.weight + (int64_t(at.head) * D + at.pair) * p.row;
    return {{first, p.row, 8}, {first + D / 2 * p.row, p.row, 8}};
  }

  // A lane's epilogue of a tile. Loads the RoPE table before the sums are ready.
  struct Finish {
    const HeadTiles& tiles;
    Place at;
    int pair, lane, M;
    int position[2];
    float cos[2], sin[2];

    __device__ __forceinline__ void operator()(const FragmentC& sum) const {
      const __nv_bfloat16* bias = tiles.of(at.kind).bias;
      const int half = tiles.D / 2;
      if (bias) bias += at.head * tiles.D + pair;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int m = lane_column(lane) + i;
        if (m >= M || position[i] < 0) continue;
        const auto rounded = [&](float x, int d) { return from_float<__nv_bfloat16>(bias ? x + to_float(bias[d]) : x); };
        __nv_bfloat16 low = rounded(sum.x[i], 0), high = rounded(sum.x[i + 2], half);
        if (tiles.cos && !tiles.raw && at.kind != Kind::v) {
          const float x1 = to_float(low), x2 = to_float(high);
          low = from_float<__nv_bfloat16>(fmaf(-x2, sin[i], x1 * cos[i]));
          high = from_float<__nv_bfloat16>(fmaf(x1, sin[i], x2 * cos[i]));
        }
        __nv_bfloat16* to = tiles.place_of(at, m, position[i]) + pair;
        to[0] = low, to[half] = high;
      }
    }
  };
  __device__ __forceinline__ Finish begin(int t, int lane, int M) const {
    Finish f{*this, place(t), 0, lane, M, {-1, -1}, {}, {}};
    f.pair = f.at.pair + lane_row(lane);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int m = lane_column(lane) + i;
      if (m >= M) continue;
      f.position[i] = positions.of(m, t == 0 && lane_row(lane) == 0);
      if (!cos || f.position[i] < 0) continue;
      const int64_t angle = int64_t(f.position[i]) * (D / 2) + f.pair;
      f.cos[i] = cos[angle], f.sin[i] = sin[angle];
    }
    return f;
  }
};

// The norms of heads, which need all elements of a head, followed by RoPE.
struct HeadNorms {
  HeadTiles heads;  // with `raw`
  const void *q_gain, *k_gain;
  bool q_wide, k_wide;
  int rows;
  float eps;
};

constexpr int kHeadWarps = 4;

// Equation: y = rope(x rstd w) of each head x of q and k.
// Layout:   heads.raw to q_at and k_cache.
// Order:    a warp per head, a lane per sixteen bytes, then a butterfly, as norm_forward for rows of up to 512 bytes.
// Requires: D a multiple of 16 up to 256. Sequences with a start out of range, which is already reported, are skipped.
// Traffic:  one read and one write of each head.
__global__ void __launch_bounds__(32 * kHeadWarps) norm_and_turn(const __grid_constant__ HeadNorms p) {
  __shared__ __align__(16) __nv_bfloat16 normed[kHeadWarps][256];
  let_next_kernel_start();
  wait_for_kernel_before();
  const int all = p.heads.q.heads + p.heads.k.heads, lane = int(threadIdx.x) % 32, i = int(blockIdx.x) * kHeadWarps + int(threadIdx.x) / 32;
  if (i >= p.rows * all) return;
  const int m = i / all, head = i - m * all, D = p.heads.D, half = D / 2;
  const bool is_q = head < p.heads.q.heads;
  const int position = p.heads.positions.of(m, false);
  if (position < 0) return;
  __nv_bfloat16* row = normed[threadIdx.x / 32];
  RowPiece piece;
  float sum = 0;
  if (lane * 8 < D) {
    piece = load_chunk<__nv_bfloat16, 8>(p.heads.raw + int64_t(i) * D + lane * 8);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum = fmaf(piece[e], piece[e], sum);
  }
  const float rstd = row_rstd(warp_reduce(sum, Sum()), D, p.eps);
  if (lane * 8 < D) {
    const void* gain = is_q ? p.q_gain : p.k_gain;
    const bool wide = is_q ? p.q_wide : p.k_wide;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int d = lane * 8 + e;
      piece.set(e, piece[e] * rstd * (wide ? static_cast<const float*>(gain)[d] : to_float(static_cast<const __nv_bfloat16*>(gain)[d])));
    }
    store_chunk(piece, row + lane * 8);
  }
  __syncwarp();
  __nv_bfloat16* to = is_q ? p.heads.q_at.row(m, 0, head) : p.heads.k_cache.row(m, position, head - p.heads.q.heads);
  for (int d = lane; d < half; d += 32) {
    const float x1 = to_float(row[d]), x2 = to_float(row[d + half]);
    float y1 = x1, y2 = x2;
    if (p.heads.cos) {
      const float c = p.heads.cos[int64_t(position) * half + d], sine = p.heads.sin[int64_t(position) * half + d];
      y1 = fmaf(-x2, sine, x1 * c), y2 = fmaf(x1, sine, x2 * c);
    }
    to[d] = from_float<__nv_bfloat16>(y1), to[d + half] = from_float<__nv_bfloat16>(y2);
  }
}

Projection projection(const View& weight, const View& bias, int64_t D) {
  return {data<__nv_bfloat16>(weight), data<__nv_bfloat16>(bias), weight.strides[0], int(weight.shape[0] / D)};
}

}  // namespace

void norm_heads(Stream& stream, const NormHeadsArgs& a) {
  const int64_t D = a.q.shape[2], capacity = kv_capacity(a.k_cache, a.pages);
  check(capacity < (int64_t(1) << 31), a.kOp, "a cache of ", capacity, " positions is more than this device takes");
  check_weight_rows(a.kOp, {&a.q_weight, &a.k_weight, &a.v_weight});
  const Launch launch(stream, a.kOp, {&a.x, &a.q});
  const int64_t R = a.x.shape[0], normed = a.q_norm ? (a.q_weight.shape[0] + a.k_weight.shape[0]) * R : 0;
  const Scratch<__nv_bfloat16> raw(stream, normed);
  const HeadTiles tiles{
      .q = projection(a.q_weight, a.q_bias, D),
      .k = projection(a.k_weight, a.k_bias, D),
      .v = projection(a.v_weight, a.v_bias, D),
      .q_at = {data<__nv_bfloat16>(a.q), a.q.strides[0], 0, a.q.strides[1]},
      .k_cache = cached_heads<__nv_bfloat16>(a.k_cache, a.pages, launch),
      .v_cache = cached_heads<__nv_bfloat16>(a.v_cache, a.pages, launch),
      .cos = data<float>(a.cos),
      .sin = data<float>(a.sin),
      .raw = normed ? raw.data() : nullptr,
      .positions = {data<int32_t>(a.start), int(capacity), a.cos ? int(a.cos.shape[0]) : int(capacity), launch.fault(), a.kOp},
      .D = int(D)};
  launch_held(stream, a.kOp, held_input(a), tiles);
  if (!a.q_norm) return;
  const HeadNorms norms{
      tiles, data<char>(a.q_norm), data<char>(a.k_norm), a.q_norm.dtype == DType::f32, a.k_norm.dtype == DType::f32, int(R), a.eps};
  const int64_t warps = R * (tiles.q.heads + tiles.k.heads);
  launch_overlapping(stream, a.kOp, dim3(unsigned((warps + kHeadWarps - 1) / kHeadWarps)), 32 * kHeadWarps, 0, norm_and_turn, norms);
}

}  // namespace weft::cuda
