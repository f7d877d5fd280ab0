#include "weft/ops/transpose_2d/transpose_2d.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/transpose_2d/cpu.cpp"
#include <hwy/foreach_target.h>
#include <hwy/cache_control.h>

#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// A tile is one cache line wide both ways: each line of x is read whole and each line of y written whole, so rows
// that are a power of two apart (all in one cache set) do not push each other out half-used.
template <class T>
inline constexpr int64_t kTile = 64 / int64_t(sizeof(T));

// out[n][m] = in[m][n] within a full tile; out is packed.
template <class T>
HWY_INLINE void transpose_tile(const T* in, int64_t stride, T* out) {
  alignas(64) T line[kTile<T>][kTile<T>];
  for (int64_t m = 0; m < kTile<T>; ++m) std::memcpy(line[m], in + m * stride, 64);
  for (int64_t n = 0; n < kTile<T>; ++n)
    for (int64_t m = 0; m < kTile<T>; ++m) out[n * kTile<T> + m] = line[m][n];
}

// Four-byte elements: 4x4 blocks in registers, by two rounds of interleaving.
HWY_INLINE void transpose_tile(const uint32_t* in, int64_t stride, uint32_t* out) {
  constexpr int64_t T = kTile<uint32_t>;
  const hn::FixedTag<uint32_t, 4> d;
  const hn::FixedTag<uint64_t, 2> wide;
  const auto low = [&](auto a, auto b)
                       HWY_ATTR { return hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, a), hn::BitCast(wide, b))); };
  const auto high = [&](auto a, auto b)
                        HWY_ATTR { return hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, a), hn::BitCast(wide, b))); };
  for (int64_t m = 0; m < T; m += 4)
    for (int64_t n = 0; n < T; n += 4) {
      const uint32_t* from = in + m * stride + n;
      const auto r0 = hn::LoadU(d, from), r1 = hn::LoadU(d, from + stride);
      const auto r2 = hn::LoadU(d, from + 2 * stride), r3 = hn::LoadU(d, from + 3 * stride);
      const auto a = hn::InterleaveLower(d, r0, r1), b = hn::InterleaveLower(d, r2, r3);
      const auto e = hn::InterleaveUpper(d, r0, r1), f = hn::InterleaveUpper(d, r2, r3);
      uint32_t* to = out + n * T + m;
      hn::StoreU(low(a, b), d, to);
      hn::StoreU(high(a, b), d, to + T);
      hn::StoreU(low(e, f), d, to + 2 * T);
      hn::StoreU(high(e, f), d, to + 3 * T);
    }
}

// Two-byte elements: 8x8 blocks, by three rounds of interleaving.
HWY_INLINE void transpose_tile(const uint16_t* in, int64_t stride, uint16_t* out) {
  constexpr int64_t T = kTile<uint16_t>;
  const hn::FixedTag<uint16_t, 8> d;
  const hn::FixedTag<uint32_t, 4> d32;
  const hn::FixedTag<uint64_t, 2> d64;
  using R = hn::Vec<decltype(d)>;
  for (int64_t m = 0; m < T; m += 8)
    for (int64_t n = 0; n < T; n += 8) {
      R r[8], s[8];
      for (int i = 0; i < 8; ++i) r[i] = hn::LoadU(d, in + (m + i) * stride + n);
      for (int i = 0; i < 4; ++i) {  // pairs of rows: s[i], s[i + 4] hold columns 0-3, 4-7 of rows 2 i, 2 i + 1
        s[i] = hn::InterleaveLower(d, r[2 * i], r[2 * i + 1]);
        s[i + 4] = hn::InterleaveUpper(d, r[2 * i], r[2 * i + 1]);
      }
      for (int h = 0; h < 2; ++h)      // halves of the columns
        for (int i = 0; i < 2; ++i) {  // rows 4 i to 4 i + 3: r[4 h + 2 i], r[4 h + 2 i + 1] hold two columns each
          const auto a = hn::BitCast(d32, s[4 * h + 2 * i]), b = hn::BitCast(d32, s[4 * h + 2 * i + 1]);
          r[4 * h + 2 * i] = hn::BitCast(d, hn::InterleaveLower(d32, a, b));
          r[4 * h + 2 * i + 1] = hn::BitCast(d, hn::InterleaveUpper(d32, a, b));
        }
      for (int h = 0; h < 2; ++h)
        for (int c = 0; c < 2; ++c) {
          const auto a = hn::BitCast(d64, r[4 * h + c]), b = hn::BitCast(d64, r[4 * h + 2 + c]);
          uint16_t* to = out + (n + 4 * h + 2 * c) * T + m;
          hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, a, b)), d, to);
          hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, a, b)), d, to + T);
        }
    }
}

// Writes a packed tile to y, a cache line a row. `non_temporal`: the lines are aligned and y is too large to be found in a
// cache afterwards, so they go straight to memory, without being read first.
template <class T>
HWY_INLINE void store_tile(const T* packed, T* y, int64_t stride, bool non_temporal) {
  const hn::CappedTag<uint8_t, 64> d;
  for (int64_t i = 0; i < kTile<T>; ++i) {
    const auto* from = reinterpret_cast<const uint8_t*>(packed + i * kTile<T>);
    auto* to = reinterpret_cast<uint8_t*>(y + i * stride);
    for (size_t k = 0; k < 64; k += hn::Lanes(d))
      non_temporal ? hn::Stream(hn::Load(d, from + k), d, to + k) : hn::StoreU(hn::Load(d, from + k), d, to + k);
  }
}

// Transposes one block of at most kSide x kSide elements from x to y. It walks along rows of x, so that reads are consecutive;
// the scattered writes are not waited for.
template <class T>
void transpose_block(const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t rows, int64_t columns, bool non_temporal) {
  constexpr int64_t kSize = kTile<T>;
  for (int64_t m = 0; m < rows; m += kSize)
    for (int64_t n = 0; n < columns; n += kSize) {
      const int64_t height = std::min(kSize, rows - m), width = std::min(kSize, columns - n);
      const T* from = x + m * x_stride + n;
      T* to = y + n * y_stride + m;
      if (height == kSize && width == kSize) {
        alignas(64) T packed[kSize * kSize];
        transpose_tile(from, x_stride, packed);
        store_tile(packed, to, y_stride, non_temporal);
      } else {
        for (int64_t i = 0; i < width; ++i)
          for (int64_t j = 0; j < height; ++j) to[i * y_stride + j] = from[j * x_stride + i];
      }
    }
  if (non_temporal) hwy::FlushStream();
}

// Equation: y[n, m] = x[m, n].
// Layout:   x [B, M, N], y [B, N, M], strides for batch and row, unit stride within a row. T has the element's size.
// Order:    no sums; blocks of 256 x 256 elements are the tasks.
// Requires: unit stride within rows of more than one element (the contract's).
// Traffic:  one read of x and one write of y, by whole cache lines where rows are aligned; a large, aligned y is not
//           read before it is written.
template <class T>
void run(Stream& stream, const Transpose2dArgs& a) {
  constexpr int64_t kSide = 256;
  const int rank = a.x.rank();
  const int64_t B = rank == 3 ? a.x.shape[0] : 1, M = a.x.shape[rank - 2], N = a.x.shape[rank - 1];
  const int64_t x_batch = rank == 3 ? a.x.strides[0] : 0, y_batch = rank == 3 ? a.y.strides[0] : 0;
  const int64_t x_stride = a.x.strides[rank - 2], y_stride = a.y.strides[rank - 2];
  const bool non_temporal = a.y.numel() * int64_t(sizeof(T)) >= kOutOfCache && reinterpret_cast<uintptr_t>(data<T>(a.y)) % 64 == 0 &&
                            y_stride * int64_t(sizeof(T)) % 64 == 0 && y_batch * int64_t(sizeof(T)) % 64 == 0;
  const int64_t down = ceil_div(M, kSide), across = ceil_div(N, kSide);
  parallel_for(B * down * across, threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t n = task % across * kSide, m = task / across % down * kSide, b = task / across / down;
    transpose_block(data<T>(a.x) + b * x_batch + m * x_stride + n, x_stride, data<T>(a.y) + b * y_batch + n * y_stride + m, y_stride,
                    std::min(kSide, M - m), std::min(kSide, N - n), non_temporal);
  });
}

}  // namespace

void transpose_2d(Stream& stream, const Transpose2dArgs& args) {
  switch (size_of(args.x.dtype)) {
    case 1: return run<uint8_t>(stream, args);
    case 2: return run<uint16_t>(stream, args);
    default: return run<uint32_t>(stream, args);
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(transpose_2d, Transpose2dArgs)
#endif
