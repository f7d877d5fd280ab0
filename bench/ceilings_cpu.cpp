#include "bench/ceilings_cpu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/ceilings_cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::bench::HWY_NAMESPACE {
using namespace weft::cpu::HWY_NAMESPACE;

// Twelve blocks in flight hide a latency of four to five cycles on two units, at any register width (with narrower registers a block is
// more instructions, so fewer blocks are kept and more steps taken).
float fma_chain(int64_t steps) {
  constexpr int kChains = 12 / kParts > 0 ? 12 / kParts : 1;
  F32x16 acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = splat(0.1f * float(i));
  const F32x16 b = splat(0.999f), c = splat(0.001f);
  for (int64_t step = 0; step < steps * 12 / kChains; ++step)
    for (int i = 0; i < kChains; ++i) acc[i] = fma(acc[i], b, c);
  F32x16 total = acc[0];
  for (int i = 1; i < kChains; ++i) total = total + acc[i];
  return sum(total);
}

// x = e^-x converges to 0.567: neither large nor subnormal. Eight blocks in flight hide the latency of one.
float exp_chain(int64_t steps) {
  constexpr int kChains = 8 / kParts > 0 ? 8 / kParts : 1;
  F32x16 x[kChains];
  for (int i = 0; i < kChains; ++i) x[i] = splat(0.1f * float(i));
  for (int64_t step = 0; step < steps * 8 / kChains; ++step)
    for (int i = 0; i < kChains; ++i) x[i] = exp(zero() - x[i]);
  F32x16 total = x[0];
  for (int i = 1; i < kChains; ++i) total = total + x[i];
  return sum(total);
}

float read_chunk(const float* from, int64_t n) {
  return row_sum(n, [&](At at) HWY_ATTR { return at.load(from); });
}

void copy_chunk(const float* from, float* to, int64_t n) {
  for_each_block(n, [&](At at) HWY_ATTR { at.store(at.load(from), to); });
}

void triad_chunk(const float* b, const float* c, float* a, int64_t n) {
  const F32x16 s = splat(3.0f);
  for_each_block(n, [&](At at) HWY_ATTR { at.store(fma(s, at.load(c), at.load(b)), a); });
}

}  // namespace weft::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::bench {
HWY_EXPORT(fma_chain);
HWY_EXPORT(exp_chain);
HWY_EXPORT(read_chunk);
HWY_EXPORT(copy_chunk);
HWY_EXPORT(triad_chunk);
float fma_chain(int64_t steps) { return HWY_DYNAMIC_DISPATCH(fma_chain)(steps); }
float exp_chain(int64_t steps) { return HWY_DYNAMIC_DISPATCH(exp_chain)(steps); }
float read_chunk(const float* from, int64_t n) { return HWY_DYNAMIC_DISPATCH(read_chunk)(from, n); }
void copy_chunk(const float* from, float* to, int64_t n) { HWY_DYNAMIC_DISPATCH(copy_chunk)(from, to, n); }
void triad_chunk(const float* b, const float* c, float* a, int64_t n) { HWY_DYNAMIC_DISPATCH(triad_chunk)(b, c, a, n); }
}  // namespace weft::bench
#endif
