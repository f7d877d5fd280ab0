#include "weft/ops/rope/rope.h"
#include "weft/tile/cpu/heads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/rope/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

namespace {

// Both elements of a pair are read before either is written, so y may be x.
template <class T>
void turn_halves(const T* x, const float* cos, const float* sin, float sign, int64_t half, T* y) {
  for_each_block(half, [&](At at) HWY_ATTR {
    const F32x16 x1 = at.load(x), x2 = at.load(x + half), c = at.load(cos), s = splat(sign) * at.load(sin);
    at.store(fnma(x2, s, x1 * c), y);
    at.store(fma(x1, s, x2 * c), y + half);
  });
}

template <class T>
void turn_neighbours(const T* x, const float* cos, const float* sin, float sign, int64_t half, T* y) {
  for (int64_t i = 0; i < half; ++i) {
    const float x1 = float(x[2 * i]), x2 = float(x[2 * i + 1]), s = sign * sin[i];
    y[2 * i] = T(x1 * cos[i] - x2 * s);
    y[2 * i + 1] = T(x2 * cos[i] + x1 * s);
  }
}

// Reports the first sequence, or token with a position of its own, that leaves the table.
bool positions_in_table(Stream& stream, const RopeArgs& a) {
  const int64_t B = a.x.shape[0], T = a.x.shape[1], positions = a.cos.shape[0];
  for (int64_t t = 0; a.positions && t < T; ++t) {
    const int64_t position = data<int32_t>(a.positions)[t];
    if (position >= 0 && position < positions) continue;
    stream.report(join("position ", position, " of token ", t, " is out of range [0, ", positions, ")"));
    return false;
  }
  if (a.positions) return true;
  for (int64_t b = 0; b < B; ++b) {
    const int64_t start = a.start ? data<int32_t>(a.start)[a.start.shape[0] == 1 ? 0 : b] : 0;
    if (start >= 0 && start + T <= positions) continue;
    stream.report(join("positions ", start, " to ", start + T - 1, " of sequence ", b, " are out of range [0, ", positions, ")"));
    return false;
  }
  return true;
}

// Equation: (y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin) for each pair of the first R elements; y = x for the rest.
// Layout:   x, y [B, T, H, D] with any strides over B, T, H; cos, sin [positions, R / 2]; start [B], [1] or absent; or positions [T].
// Order:    tokens are independent tasks in groups; no sums.
// Requires: every position within the table, else it is reported and nothing is written.
// Traffic:  one read of x and one write of y; a token's row of the table stays in cache for its heads.
template <class T>
void turn(Stream& stream, const RopeArgs& a) {
  const int64_t tokens = a.x.shape[1], H = a.x.shape[2], D = a.x.shape[3], half = a.cos.shape[1];
  const Heads<const T> x = heads<T>(a.x);
  const Heads<T> y = heads<T>(a.y);
  const float sign = a.inverse ? -1.0f : 1.0f;
  for_each_row_group(stream, a.x.shape[0] * tokens, H * D, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t r = first; r < last; ++r) {
      const int64_t b = r / tokens, t = r % tokens;
      const int64_t start = a.start ? data<int32_t>(a.start)[a.start.shape[0] == 1 ? 0 : b] : 0;
      const int64_t position = a.positions ? data<int32_t>(a.positions)[t] : start + t;
      const float *cos = data<float>(a.cos) + position * half, *sin = data<float>(a.sin) + position * half;
      for (int64_t h = 0; h < H; ++h) {
        const T* from = x.row(b, t, h);
        T* to = y.row(b, t, h);
        a.pairs == RopePairs::half_split ? turn_halves(from, cos, sin, sign, half, to) : turn_neighbours(from, cos, sin, sign, half, to);
        if (from != to) std::copy(from + 2 * half, from + D, to + 2 * half);
      }
    }
  });
}

}  // namespace

void rope(Stream& stream, const RopeArgs& args) {
  if (args.x.numel() == 0 || !positions_in_table(stream, args)) return;
  dispatch<float, bf16>(args.x.dtype, [&]<class T>() { turn<T>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(rope, RopeArgs)
#endif
