// Random numbers from a state in device memory (Philox4x32-10, weft/base/philox.h):
//
//   out[i] = low + (high - low) unit(word i),  unit in [0, 1) in steps of 2^-24
//   word i = word i mod 4 of philox({i / 4, site, step_lo, step_hi}, {key_lo, key_hi})
//
// The state is u32 {key_lo, key_hi, step_lo, step_hi}; `site` tells the callers of one step apart. Difference, product
// and sum are each rounded to f32, so a value has the same bits on every device; it may round up to `high`.
#pragma once

#include <vector>

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

inline constexpr int64_t kMostRandomWords = int64_t(1) << 34;  // i / 4 is a 32-bit counter

struct UniformArgs {
  static constexpr const char* kOp = "uniform";
  View state;
  uint32_t site;
  MutView out;
  float low, high;

  static constexpr auto operands() {
    using A = UniformArgs;
    return std::array{operand::in("state", &A::state, "4", DType::u32), operand::out("out", &A::out, "...", DType::f32)};
  }
};

// step += 1, a 64-bit number: every site draws new numbers.
struct AdvanceStateArgs {
  static constexpr const char* kOp = "advance_state";
  MutView state;

  static constexpr auto operands() { return std::array{operand::in_out("state", &AdvanceStateArgs::state, "4", DType::u32)}; }
};

void uniform(Stream& stream, const UniformArgs& args);
void advance_state(Stream& stream, const AdvanceStateArgs& args);
inline Cost cost(const UniformArgs& a) { return {operand_bytes(a), 2.0 * double(a.out.numel())}; }
inline Cost cost(const AdvanceStateArgs& a) { return {operand_bytes(a), 0}; }

Tensor uniform(Device& device, const Shape& shape, const Tensor& state, uint32_t site, float low = 0, float high = 1);

// The state of step 0 for a seed, and the way to the next step.
Tensor random_state(Device& device, uint64_t seed);
void advance_random_state(const Tensor& state);
std::vector<uint32_t> later_random_state(std::vector<uint32_t> state, uint64_t steps);  // on the host: `steps` steps later

// n draws of a normal distribution on the host, for initial weights.
std::vector<float> normal_values(int64_t n, uint64_t seed, double stddev = 1);

}  // namespace weft
