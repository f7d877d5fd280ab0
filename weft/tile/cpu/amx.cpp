#include "weft/tile/cpu/amx.h"

#include <bit>
#include <cmath>

#include "weft/tile/cpu/bf16_dot.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define WEFT_WITH_FMA __attribute__((target("avx2,fma")))
#else
#define WEFT_WITH_FMA
#endif
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#define WEFT_HAS_AMX 1
#else
#define WEFT_HAS_AMX 0
#endif

namespace weft::cpu {
namespace {

float even(uint32_t word) { return std::bit_cast<float>(word << 16); }
float odd(uint32_t word) { return std::bit_cast<float>(word & 0xffff0000u); }

// Sixteen sums of row i, from column j on.
WEFT_WITH_FMA void emulate(const AmxMatmulArgs& p, int64_t i, int64_t j) {
  float sum[kAmxColumns];
  for (int n = 0; n < kAmxColumns; ++n) sum[n] = p.from ? p.from[i * p.from_row + j + n] : 0.0f;
  for (int64_t block = 0; block < p.blocks; ++block) {
    const bf16* a = p.a + i * p.a_row + block * p.a_block;
    const float* b = p.b + block * (kAmxBlock / 2) * p.b_row + j;
    float evens[kAmxColumns] = {}, odds[kAmxColumns] = {};
    for (int k = 0; k < kAmxBlock; k += 2, b += p.b_row) {
      const float x = float(a[k]), y = float(a[k + 1]);
      for (int n = 0; n < kAmxColumns; ++n) {
        const uint32_t word = std::bit_cast<uint32_t>(b[n]);
        evens[n] = std::fma(x, even(word), evens[n]);
        odds[n] = std::fma(y, odd(word), odds[n]);
      }
    }
    for (int n = 0; n < kAmxColumns; ++n) sum[n] = sum[n] + (evens[n] + odds[n]);
  }
  for (int n = 0; n < kAmxColumns; ++n) p.c[i * p.c_row + j + n] = sum[n];
}

void emulate(const AmxMatmulArgs& p) {
  for (int64_t i = 0; i < p.rows; ++i)
    for (int64_t j = 0; j < p.columns; j += kAmxColumns) emulate(p, i, j);
}

}  // namespace

#if WEFT_HAS_AMX
namespace {

#define WEFT_WITH_AMX __attribute__((target("amx-tile,amx-bf16")))

bool machine_has_amx() {
  unsigned a, b, c, d;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & kBf16) == 0 || (d & kTiles) == 0) return false;
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM; a kernel that does not know it returns an error
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Eight tiles of sixteen rows of 64 bytes.
struct alignas(64) Shapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr Shapes kShapes;

WEFT_WITH_AMX void configure() { _tile_loadconfig(&kShapes); }
WEFT_WITH_AMX void release() { _tile_release(); }

// kDown x kAcross tiles of c, at row i and column j: tiles 0 to 3; of a 4 and 5, of b 6 and 7. A tile multiplication begins every 16
// cycles and takes 52, so 2 x 2 keep the unit busy, with four loads of 8 cycles (out of L1) in 64. If the next words of b follow in
// memory, as in a panel in L2, they are prefetched.
template <int kDown, int kAcross>
WEFT_WITH_AMX void multiply(const AmxMatmulArgs& p, int64_t i, int64_t j) {
  constexpr int64_t kFloat = sizeof(float), kHalf = sizeof(bf16), kPlaces = 32;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (p.from) {
    const float* from = p.from + i * p.from_row + j;
    _tile_loadd(0, from, p.from_row * kFloat);
    if constexpr (kAcross == 2) _tile_loadd(1, from + kAmxColumns, p.from_row * kFloat);
    if constexpr (kDown == 2) _tile_loadd(2, from + kAmxRows * p.from_row, p.from_row * kFloat);
    if constexpr (kDown == 2 && kAcross == 2) _tile_loadd(3, from + kAmxRows * p.from_row + kAmxColumns, p.from_row * kFloat);
  }
  const bf16 *a = p.a + i * p.a_row, *below = a + kAmxRows * p.a_row;
  const float* b = p.b + j;
  const int64_t a_row = p.a_row * kHalf, b_row = p.b_row * kFloat, b_block = kAmxBlock / 2 * p.b_row;
  const bool follows = p.b_row == kAcross * kAmxColumns;
  const char* ahead = p.ahead;
  for (int64_t block = 0; block < p.blocks; ++block, a += p.a_block, below += p.a_block, b += b_block) {
    _tile_loadd(4, a, a_row);
    _tile_loadd(6, b, b_row);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kAcross == 2) {
      _tile_loadd(7, b + kAmxColumns, b_row);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kDown == 2) {
      _tile_loadd(5, below, a_row);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kAcross == 2) _tile_dpbf16ps(3, 5, 7);
    }
    if (follows) {
#pragma GCC unroll 32
      for (int line = 0; line < kAcross * kAmxBlock / 2; ++line) __builtin_prefetch(b + b_block + line * kAmxColumns);
    }
    if (ahead && block < kPlaces / 2)
      for (int place = 0; place < 2; ++place, ahead += p.ahead_row) {
        __builtin_prefetch(ahead, 1, 2);
        __builtin_prefetch(ahead + 64, 1, 2);
      }
  }
  float* c = p.c + i * p.c_row + j;
  _tile_stored(0, c, p.c_row * kFloat);
  if constexpr (kAcross == 2) _tile_stored(1, c + kAmxColumns, p.c_row * kFloat);
  if constexpr (kDown == 2) _tile_stored(2, c + kAmxRows * p.c_row, p.c_row * kFloat);
  if constexpr (kDown == 2 && kAcross == 2) _tile_stored(3, c + kAmxRows * p.c_row + kAmxColumns, p.c_row * kFloat);
}

template <int kDown>
void multiply_rows(const AmxMatmulArgs& p, int64_t i) {
  int64_t j = 0;
  for (; j + 2 * kAmxColumns <= p.columns; j += 2 * kAmxColumns) multiply<kDown, 2>(p, i, j);
  if (j < p.columns) multiply<kDown, 1>(p, i, j);
}

void multiply(const AmxMatmulArgs& p) {
  int64_t i = 0;
  for (; i + 2 * kAmxRows <= p.rows; i += 2 * kAmxRows) multiply_rows<2>(p, i);
  if (i < p.rows) multiply_rows<1>(p, i);
}

}  // namespace

bool has_amx() {
  static const bool has = machine_has_amx();
  return has;
}

AmxTiles::AmxTiles() {
  if (bf16_dot() == Bf16Dot::amx) configure();
}
AmxTiles::~AmxTiles() {
  if (bf16_dot() == Bf16Dot::amx) release();
}

void multiply_amx(const AmxMatmulArgs& p) { bf16_dot() == Bf16Dot::amx ? multiply(p) : emulate(p); }
#else
bool has_amx() { return false; }
AmxTiles::AmxTiles() = default;
AmxTiles::~AmxTiles() = default;
void multiply_amx(const AmxMatmulArgs& p) { emulate(p); }
#endif

}  // namespace weft::cpu
