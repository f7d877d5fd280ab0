#include "weft/ops/rope/rope_table.h"

#include <cmath>
#include <numbers>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr const char* kWhere = "rope_table";

double llama3(double frequency, const RopeScaling& s) {
  const double wavelength = 2 * std::numbers::pi / frequency, context = double(s.original_context);
  if (wavelength > context / s.low_freq_factor) return frequency / s.factor;
  if (wavelength < context / s.high_freq_factor) return frequency;
  const double smooth = (context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return frequency * ((1 - smooth) / s.factor + smooth);
}

}  // namespace

std::vector<double> rope_frequencies(int64_t rotary_dims, double theta, const RopeScaling& scaling) {
  check(rotary_dims > 0 && rotary_dims % 2 == 0, kWhere, "rotary_dims is ", rotary_dims, ", expected an even number above zero");
  check(theta > 0 && std::isfinite(theta), kWhere, "theta is ", theta, ", expected a finite number above zero");
  const bool scaled = scaling.kind == RopeScaling::Kind::llama3;
  if (scaled) {
    check(scaling.factor > 0 && std::isfinite(scaling.factor), kWhere, "factor is ", scaling.factor,
          ", expected a finite number above zero");
    check(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor, kWhere, "low_freq_factor ",
          scaling.low_freq_factor, " and high_freq_factor ", scaling.high_freq_factor, " must be above zero and in this order");
    check(scaling.original_context > 0, kWhere, "original_context is ", scaling.original_context, ", expected a number above zero");
  }
  std::vector<double> frequencies(size_t(rotary_dims / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double frequency = std::pow(theta, -2 * double(i) / double(rotary_dims));
    frequencies[i] = scaled ? llama3(frequency, scaling) : frequency;
  }
  return frequencies;
}

RopeTable rope_table(Device& device, int64_t positions, int64_t rotary_dims, double theta, const RopeScaling& scaling) {
  check(positions >= 0, kWhere, "positions is ", positions, ", expected zero or more");
  const std::vector<double> frequencies = rope_frequencies(rotary_dims, theta, scaling);
  const Shape shape{positions, rotary_dims / 2};
  std::vector<float> cos(size_t(shape.numel())), sin(cos.size());
  for (size_t i = 0; i < cos.size(); ++i) {
    const double angle = double(i / frequencies.size()) * frequencies[i % frequencies.size()];
    cos[i] = float(std::cos(angle));
    sin[i] = float(std::sin(angle));
  }
  return {Tensor::from_host(device, shape, cos), Tensor::from_host(device, shape, sin)};
}

}  // namespace weft
