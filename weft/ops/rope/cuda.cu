#include "weft/ops/rope/rope.h"
#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/heads.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

template <class T>
struct Params {
  Heads<const T> x;
  Heads<T> y;
  const float *cos, *sin;
  const int32_t* start;
  const int32_t* token_positions;  // [T], for B = 1 and instead of start; absent: tokens follow each other
  bool one_start, neighbours;
  int64_t tokens, positions, count;  // count = B T H per, threads
  int H, D, half, per;               // per = half + (D - 2 half): pairs to turn, then elements to copy
  float sign;
  Fault* fault;
  const char* op;
};

// The position of token t of sequence b, or -1 where the table has none for it or for its whole sequence; `first`: this thread reports it.
template <class T>
__device__ __forceinline__ int64_t position_of(const Params<T>& p, int64_t b, int64_t t, bool first) {
  if (p.token_positions) {
    const int64_t position = p.token_positions[t];
    if (position >= 0 && position < p.positions) return position;
    if (first) report(p.fault, Fault::token_position_out_of_range, p.op, position, t, p.positions);
    return -1;
  }
  const int64_t start = p.start ? p.start[p.one_start ? 0 : b] : 0;
  if (start >= 0 && start + p.tokens <= p.positions) return start + t;
  if (first && t == 0) report(p.fault, Fault::position_out_of_range, p.op, start < 0 ? start : start + p.tokens - 1, b, p.positions);
  return -1;
}

// Equation: (y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin) for each pair of the first R elements; y = x for the rest.
// Layout:   x, y [B, T, H, D] with any strides over B, T, H; cos, sin [positions, R / 2]; start [B], [1] or absent; or
//           token_positions [T].
// Order:    no sums; one pair a thread, a thread also copies an element past R.
// Requires: every position within the table; a sequence, or token with a position of its own, that leaves it is reported and not written.
// Traffic:  one read of x and one write of y; a token's row of the table comes from cache for its heads.
template <class T>
__global__ void turn(const Params<T> p) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t token = i / (int64_t(p.H) * p.per), b = token / p.tokens, t = token - b * p.tokens;
    const int in_token = int(i - token * p.H * p.per), h = in_token / p.per, k = in_token - h * p.per;
    const int64_t position = position_of(p, b, t, in_token == 0);
    if (position < 0) continue;
    const T* x = p.x.row(b, t, h);
    T* y = p.y.row(b, t, h);
    if (k >= p.half) {
      y[k + p.half] = x[k + p.half];
      continue;
    }
    const int first = p.neighbours ? 2 * k : k, second = p.neighbours ? 2 * k + 1 : k + p.half;
    const float c = p.cos[position * p.half + k], s = p.sign * p.sin[position * p.half + k];
    const float x1 = to_float(x[first]), x2 = to_float(x[second]);
    y[first] = from_float<T>(fmaf(-x2, s, x1 * c));
    y[second] = from_float<T>(fmaf(x1, s, x2 * c));
  }
}

// Equation: as turn(), for pairs of halves and R = D.
// Layout:   as turn(); heads aligned to 16 bytes, R / 2 a multiple of the elements of 16 bytes.
// Order:    no sums; a thread turns 16 bytes of each half of up to kHeads heads, h, h + across, ..., with one read of the table.
// Requires: as turn(); fewer than 2^31 threads.
// Traffic:  as turn(), sixteen bytes at a time; all loads of a thread are in flight before the first is used.
template <class T, int kHeads>
__global__ void __launch_bounds__(256) turn_vectors(const Params<T> p, unsigned threads, unsigned pieces, unsigned across) {
  constexpr int kWidth = kPerVector<T>;
  const unsigned i = blockIdx.x * 256 + threadIdx.x;
  if (i >= threads) return;
  const unsigned row = i / pieces, token = row / across, h = row - token * across;
  const int k = int(i - row * pieces) * kWidth;
  const unsigned b = token / unsigned(p.tokens), t = token - b * unsigned(p.tokens);
  const int64_t position = position_of(p, b, t, h == 0 && k == 0);
  if (position < 0) return;
  Chunk<T, kWidth> low[kHeads], high[kHeads];
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    if (h + j * across >= unsigned(p.H)) continue;
    const T* x = p.x.row(b, t, h + j * across) + k;
    low[j] = load_chunk<T, kWidth>(x), high[j] = load_chunk<T, kWidth>(x + p.half);
  }
  const auto c = load_chunk<float, kWidth>(p.cos + position * p.half + k), s = load_chunk<float, kWidth>(p.sin + position * p.half + k);
#pragma unroll
  for (int j = 0; j < kHeads; ++j) {
    if (h + j * across >= unsigned(p.H)) continue;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      const float x1 = low[j][e], x2 = high[j][e], sine = p.sign * s[e];
      low[j].set(e, fmaf(-x2, sine, x1 * c[e]));
      high[j].set(e, fmaf(x1, sine, x2 * c[e]));
    }
    T* y = p.y.row(b, t, h + j * across) + k;
    store_chunk(low[j], y), store_chunk(high[j], y + p.half);
  }
}

// Whether turn_vectors() applies.
template <class T>
bool in_vectors(const RopeArgs& a) {
  const int64_t half = a.cos.shape[1];
  return a.pairs == RopePairs::half_split && 2 * half == a.x.shape[3] && half % kPerVector<T> == 0 && heads_aligned<T>(a.x) &&
         heads_aligned<T>(a.y) && aligned16(data<float>(a.cos)) && aligned16(data<float>(a.sin)) && a.cos.contiguous() &&
         a.sin.contiguous() && a.x.numel() / kPerVector<T> < (int64_t(1) << 31);
}

// Several heads a thread once one each more than fills the GPU.
template <class T>
void launch_vectors(const Launch& launch, const Stream& stream, const RopeArgs& a, const Params<T>& p) {
  const int64_t tokens = a.x.shape[0] * a.x.shape[1], pieces = p.half / kPerVector<T>;
  const auto run = [&]<int kHeads>() {
    const int64_t across = (p.H + kHeads - 1) / kHeads, threads = tokens * across * pieces;
    launch(unsigned((threads + 255) / 256), 256, 0, turn_vectors<T, kHeads>, p, unsigned(threads), unsigned(pieces), unsigned(across));
  };
  tokens* p.H* pieces > int64_t(multiprocessors(stream)) * 2048 ? run.template operator()<4>() : run.template operator()<1>();
}

}  // namespace

void rope(Stream& stream, const RopeArgs& a) {
  dispatch_device<float, bf16>(a.x.dtype, [&]<class T>() {
    const int H = int(a.x.shape[2]), D = int(a.x.shape[3]), half = int(a.cos.shape[1]), per = D - half;
    const int64_t count = a.x.shape[0] * a.x.shape[1] * H * per;
    const Launch launch(stream, a.kOp, {&a.x, &a.cos});
    const Params<T> p{heads<T>(a.x),
                      heads<T>(a.y),
                      data<float>(a.cos),
                      data<float>(a.sin),
                      data<int32_t>(a.start),
                      data<int32_t>(a.positions),
                      a.start && a.start.shape[0] == 1,
                      a.pairs == RopePairs::interleaved,
                      a.x.shape[1],
                      a.cos.shape[0],
                      count,
                      H,
                      D,
                      half,
                      per,
                      a.inverse ? -1.0f : 1.0f,
                      launch.fault(),
                      launch.op()};
    if (in_vectors<T>(a)) return launch_vectors<T>(launch, stream, a, p);
    launch(blocks_for(stream, count, 256), 256, 0, turn<T>, p);
  });
}

}  // namespace weft::cuda
