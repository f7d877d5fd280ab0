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
    const int64_t start = p.start ? p.start[p.one_start ? 0 : b] : 0, position = p.token_positions ? p.token_positions[t] : start + t;
    if (p.token_positions) {
      if (position < 0 || position >= p.positions) {
        if (in_token == 0) report(p.fault, Fault::token_position_out_of_range, p.op, position, t, p.positions);
        continue;
      }
    } else if (start < 0 || start + p.tokens > p.positions) {
      if (in_token == 0 && t == 0)
        report(p.fault, Fault::position_out_of_range, p.op, start < 0 ? start : start + p.tokens - 1, b, p.positions);
      continue;
    }
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
    launch(blocks_for(stream, count, 256), 256, 0, turn<T>, p);
  });
}

}  // namespace weft::cuda
