#include "weft/ops/uniform/uniform.h"

#include <cmath>

#include "weft/base/philox.h"

namespace weft {

void uniform(Stream& stream, const UniformArgs& args) {
  const Contract contract = check_operands(stream, args);
  contract.require(args.out.numel() <= kMostRandomWords, "at most ", kMostRandomWords, " numbers in one call, got shape ", args.out.shape);
  contract.require(std::isfinite(args.high - args.low) && args.low <= args.high, "[", args.low, ", ", args.high, ") is not a range");
  if (args.out.numel() == 0) return;
  stream.device().kernels().uniform(stream, args);
}

void advance_state(Stream& stream, const AdvanceStateArgs& args) {
  check_operands(stream, args);
  stream.device().kernels().advance_state(stream, args);
}

Tensor uniform(Device& device, const Shape& shape, const Tensor& state, uint32_t site, float low, float high) {
  Tensor out = Tensor::empty(device, shape);
  uniform(device.stream(), {.state = state.view(), .site = site, .out = out.mut_view(), .low = low, .high = high});
  return out;
}

Tensor random_state(Device& device, uint64_t seed) {
  return Tensor::from_host(device, Shape{4}, std::vector<uint32_t>{uint32_t(seed), uint32_t(seed >> 32), 0, 0});
}

void advance_random_state(const Tensor& state) { advance_state(state.device().stream(), {.state = state.mut_view()}); }

std::vector<uint32_t> later_random_state(std::vector<uint32_t> state, uint64_t steps) {
  check(state.size() == 4, "random_state", "has ", state.size(), " words, expected 4");
  const uint64_t step = (uint64_t(state[3]) << 32 | state[2]) + steps;
  state[2] = uint32_t(step);
  state[3] = uint32_t(step >> 32);
  return state;
}

std::vector<float> normal_values(int64_t n, uint64_t seed, double stddev) {
  check(n >= 0, "normal_values", "cannot draw ", n, " values");
  check(std::isfinite(stddev) && stddev >= 0, "normal_values", "stddev is ", stddev, ", expected zero or more");
  PhiloxStream random(seed);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = float(stddev * random.normal());
  return values;
}

}  // namespace weft
