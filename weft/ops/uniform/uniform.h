// Random numbers from a state in device memory (Philox4x32-10, weft/base/philox.h):
//
//   out[i] = low + (high - low) unit(word i),  unit in [0, 1) in steps of 2^-24
//   word i = word i mod 4 of philox({i / 4, site, step_lo, step_hi}, {key_lo, key_hi})
//
// The state is u32 {key_lo, key_hi, step_lo, step_hi}; `site` tells the callers of one step apart. Difference, product
// and sum are each rounded to f32, so a value has the same bits on every device; it may round up to `high`.
#pragma once

#include <vector>

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

inline constexpr int64_t kMostRandomWords = int64_t(1) << 34;  // i / 4 is a 32-bit counter

struct UniformArgs {
  static constexpr const char* kOp = "uniform";
  View state;  // [4], u32
  uint32_t site;
  MutView out;  // any shape, f32, contiguous
  float low, high;
};

// step += 1, a 64-bit number: every site draws new numbers.
struct AdvanceStateArgs {
  static constexpr const char* kOp = "advance_state";
  MutView state;  // [4], u32
};

void uniform(Stream& stream, const UniformArgs& args);
void advance_state(Stream& stream, const AdvanceStateArgs& args);
Cost cost(const UniformArgs& args);

// Seen by uniform and dropout: throws unless `state` is one.
void check_random_state(const Contract& contract, const View& state);

Tensor uniform(Device& device, const Shape& shape, const Tensor& state, uint32_t site, float low = 0, float high = 1);

// The state of step 0 for a seed, and the way to the next step.
Tensor random_state(Device& device, uint64_t seed);
void advance_random_state(const Tensor& state);

// n draws of a normal distribution on the host, for initial weights.
std::vector<float> normal_values(int64_t n, uint64_t seed, double deviation);

}  // namespace weft
