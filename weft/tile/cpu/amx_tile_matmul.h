// Tile matmuls (tile_matmul.h) on AMX (amx.h), or by its emulation.
//
// AMX takes rows of A along k, sixteen at a time: an A stored across k is transposed first, and the last rows are copied. A triangle is a
// matmul whose A has zeros beyond it. 0 * NaN would spoil the sum: a B that is not finite goes to the steps of pairs.h, which leave
// terms out.

#if defined(WEFT_TILE_CPU_AMX_TILE_MATMUL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_TILE_CPU_AMX_TILE_MATMUL_H_
#undef WEFT_TILE_CPU_AMX_TILE_MATMUL_H_
#else
#define WEFT_TILE_CPU_AMX_TILE_MATMUL_H_
#endif

#include "weft/tile/cpu/amx.h"
#include "weft/tile/cpu/pairs.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// A step is a word, as for pairs, but sums take blocks of 32 k: past the last k up to a whole block, A as stored and B hold zeros.
struct AmxDot : EmulatedDot {
  static constexpr int kGrain = kAmxBlock;
};

// At most 64 rows, 256 columns and 256 k; 64 k if A is transposed or copied.
class AmxTileMatmul {
 public:
  explicit AmxTileMatmul(const TileMatmulBy<AmxDot>& args) : t_(args), blocks_(ceil_div(args.k, kWordsOfBlock)) {
    if (t_.prefetch)
      for (int64_t m = 0; m < t_.m; m += 6) t_.prefetch->some();  // as often as without AMX
    if (t_.factor)
      for (int64_t m = 0; m < t_.m; ++m)
        for (int64_t n = 0; t_.factor[m] != 1 && n < t_.n; n += kBlock) store(load(c(m) + n) * splat(t_.factor[m]), c(m) + n);
  }

  void run() {
    if (t_.a_step != 1) {
      transpose_a();
      return multiply(a_, kWordsOfA, 0, t_.m);
    }
    const int64_t whole = t_.m / kAmxRows * kAmxRows, k = blocks_ * kWordsOfBlock;
    multiply(t_.a, t_.a_row, 0, whole);
    if (whole == t_.m) return;
    std::fill_n(a_, kAmxRows * k, 0.0f);
    for (int64_t m = whole; m < t_.m; ++m) std::memcpy(a_ + (m - whole) * k, t_.a + m * t_.a_row, size_t(k) * sizeof(float));
    multiply(a_, k, whole, t_.m - whole);
  }

  // A as stored has rows of 32 words, whatever k is.
  template <Steps kWhich>
  void run_triangle() {
    constexpr bool kThrough = kWhich == Steps::through_row;
    const bool transposed = t_.a_step != 1;
    transposed ? transpose_a() : clear_rows();
    for (int64_t m = 0; m < t_.m; ++m) {
      const float* from = transposed ? a_ + m * kWordsOfA : t_.a + m * t_.a_row;
      float* row = a_ + m * kWordsOfA;
      const F32x16 first = splat(kThrough ? 0.0f : float(m / 2)), last = splat(kThrough ? float(m / 2 + 1) : float(kWordsOfA));
      for (int64_t w = 0; w < kWordsOfA; w += kBlock) {
        const F32x16 number = lane_numbers() + splat(float(w));
        store(select(number < first, zero(), select(number < last, load(from + w), zero())), row + w);
      }
      if ((m % 2 == 0) == kThrough) keep_half<kThrough>(row + m / 2);
    }
    multiply(a_, kWordsOfA, 0, t_.m);
  }

 private:
  static constexpr int64_t kWordsOfBlock = kAmxBlock / 2, kWordsOfA = 32, kMostRows = 64, kMostColumns = 256;

  float* c(int64_t m) const { return t_.c + m * t_.c_row; }

  // Rows past the last one, up to a whole tile.
  void clear_rows() { std::fill(a_ + t_.m * kWordsOfA, a_ + ceil_div(t_.m, kAmxRows) * kAmxRows * kWordsOfA, 0.0f); }
  // Rows of A along k, each of 32 words, zeros past the last k.
  void transpose_a() {
    clear_rows();
    pack_along_k<WidenedWords<float>, int(kWordsOfA)>(t_.a, t_.a_step, t_.k, t_.m, a_);
  }
  template <bool kEven>
  static void keep_half(float* word) {
    uint32_t bits;
    std::memcpy(&bits, word, sizeof bits);
    bits &= kEven ? 0xffffu : 0xffff0000u;
    std::memcpy(word, &bits, sizeof bits);
  }

  // Rows of C from m on; a last tile that is not whole goes through a buffer.
  void multiply(const float* a, int64_t a_row, int64_t m, int64_t rows) const {
    const int64_t whole = rows / kAmxRows * kAmxRows, left = rows - whole;
    if (whole > 0) multiply_to(a, a_row, whole, c(m), t_.c_row);
    if (left == 0) return;
    alignas(64) float sums[kAmxRows * kMostColumns];
    std::fill_n(sums, kAmxRows * t_.n, 0.0f);
    const size_t bytes = size_t(t_.n) * sizeof(float);
    if (t_.add)
      for (int64_t r = 0; r < left; ++r) std::memcpy(sums + r * t_.n, c(m + whole + r), bytes);
    multiply_to(a + whole * a_row, a_row, kAmxRows, sums, t_.n);
    for (int64_t r = 0; r < left; ++r) std::memcpy(c(m + whole + r), sums + r * t_.n, bytes);
  }
  void multiply_to(const float* a, int64_t a_row, int64_t rows, float* to, int64_t to_row) const {
    multiply_amx({.rows = rows,
                  .columns = t_.n,
                  .blocks = blocks_,
                  .a = reinterpret_cast<const bf16*>(a),
                  .a_row = 2 * a_row,
                  .a_block = kAmxBlock,
                  .b = t_.b,
                  .b_row = t_.b_row,
                  .from = t_.add ? to : nullptr,
                  .from_row = to_row,
                  .c = to,
                  .c_row = to_row});
  }

  const TileMatmulBy<AmxDot>& t_;
  const int64_t blocks_;
  alignas(64) float a_[kMostRows * kWordsOfA];
};

template <>
inline void tile_matmul<AmxDot>(const TileMatmulBy<AmxDot>& t) {
  AmxTileMatmul(t).run();
}

template <Steps kWhich>
void triangle_matmul(const TileMatmulBy<AmxDot>& t) {
  if (pairs_are_finite(t.b, t.b_row, t.k, t.n)) return AmxTileMatmul(t).template run_triangle<kWhich>();
  triangle_matmul<kWhich, EmulatedDot>({t.m, t.n, t.k, t.a, t.a_row, t.a_step, t.b, t.b_row, t.c, t.c_row, t.add, t.factor, t.prefetch});
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
