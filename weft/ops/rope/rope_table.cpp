#include "weft/ops/rope/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/base/check.h"

namespace weft {
namespace {

using Kind = RopeScaling::Kind;
constexpr const char* kWhere = "rope_table";

double llama3(double frequency, const RopeScaling& s) {
  const double wavelength = 2 * std::numbers::pi / frequency, context = double(s.original_context);
  if (wavelength > context / s.low_freq_factor) return frequency / s.factor;
  if (wavelength < context / s.high_freq_factor) return frequency;
  const double smooth = (context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return frequency * ((1 - smooth) / s.factor + smooth);
}

double dynamic_theta(double theta, int64_t R, const RopeScaling& s, int64_t context) {
  const double stretch = double(std::max(context, s.original_context)) / double(s.original_context);
  return theta * std::pow(s.factor * stretch - (s.factor - 1), double(R) / double(R - 2));
}

// Frequencies before `low` are kept, those after `high` are divided by the factor, and those between are blended.
struct YarnRange {
  double low, high;

  YarnRange(int64_t R, double theta, const RopeScaling& s) {
    const auto pair_of = [&](double turns) {
      return double(R) * std::log(double(s.original_context) / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
    };
    low = pair_of(s.beta_fast), high = pair_of(s.beta_slow);
    if (s.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0), high = std::min(high, double(R - 1));
    if (low == high) high += 0.001;  // as in transformers
  }

  double blend(double frequency, size_t pair, double factor) const {
    const double keep = 1 - std::clamp((double(pair) - low) / (high - low), 0.0, 1.0);
    return frequency * ((1 - keep) / factor + keep);
  }
};

void check_longrope(const RopeScaling& s, int64_t R) {
  for (const auto& [name, factors] : {std::pair{"short_factors", &s.short_factors}, {"long_factors", &s.long_factors}}) {
    check(int64_t(factors->size()) == R / 2, kWhere, name, " has ", factors->size(), " elements, expected one for each of ", R / 2,
          " pairs");
    for (double factor : *factors)
      check(factor > 0 && std::isfinite(factor), kWhere, name, " has ", factor, ", expected finite numbers above zero");
  }
}

void check_scaling(const RopeScaling& s, int64_t R, double theta) {
  if (s.kind == Kind::none) return;
  check(s.factor > 0 && std::isfinite(s.factor), kWhere, "factor is ", s.factor, ", expected a finite number above zero");
  check(s.attention_factor > 0 && std::isfinite(s.attention_factor), kWhere, "attention_factor is ", s.attention_factor,
        ", expected a finite number above zero");
  if (s.kind == Kind::linear) return;
  check(s.original_context > 0, kWhere, "original_context is ", s.original_context, ", expected a number above zero");
  if (s.kind == Kind::llama3)
    check(s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor, kWhere, "low_freq_factor ", s.low_freq_factor,
          " and high_freq_factor ", s.high_freq_factor, " must be above zero and in this order");
  if (s.kind == Kind::dynamic)
    check(R > 2 && s.factor >= 1, kWhere, "dynamic scaling needs more than 2 rotary dimensions and a factor of 1 or more, got ", R, " and ",
          s.factor);
  if (s.kind == Kind::yarn)
    check(s.beta_slow > 0 && s.beta_fast >= s.beta_slow && theta > 1, kWhere, "beta_fast ", s.beta_fast, " and beta_slow ", s.beta_slow,
          " must be above zero and in this order, and theta ", theta, " above 1");
  if (s.kind == Kind::longrope) check_longrope(s, R);
}

}  // namespace

std::vector<double> rope_frequencies(int64_t rotary_dims, double theta, const RopeScaling& scaling, int64_t context) {
  check(rotary_dims > 0 && rotary_dims % 2 == 0, kWhere, "rotary_dims is ", rotary_dims, ", expected an even number above zero");
  check(theta > 0 && std::isfinite(theta), kWhere, "theta is ", theta, ", expected a finite number above zero");
  check_scaling(scaling, rotary_dims, theta);
  const double base = scaling.kind == Kind::dynamic ? dynamic_theta(theta, rotary_dims, scaling, context) : theta;
  check(base > 0 && std::isfinite(base), kWhere, "dynamic scaling by ", scaling.factor, " makes the base ", theta, " into ", base,
        ", expected a finite number above zero");
  const std::vector<double>& factors = context > scaling.original_context ? scaling.long_factors : scaling.short_factors;
  std::vector<double> frequencies(size_t(rotary_dims / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double frequency = std::pow(base, -2 * double(i) / double(rotary_dims));
    switch (scaling.kind) {
      case Kind::none:
      case Kind::dynamic: frequencies[i] = frequency; break;
      case Kind::linear: frequencies[i] = frequency / scaling.factor; break;
      case Kind::llama3: frequencies[i] = llama3(frequency, scaling); break;
      case Kind::yarn: frequencies[i] = YarnRange(rotary_dims, theta, scaling).blend(frequency, i, scaling.factor); break;
      case Kind::longrope: frequencies[i] = frequency / factors[i]; break;
    }
  }
  return frequencies;
}

RopeTable rope_table(Device& device, int64_t positions, int64_t rotary_dims, double theta, const RopeTableOptions& options) {
  check(positions >= 0, kWhere, "positions is ", positions, ", expected zero or more");
  const RopeScaling& scaling = options.scaling;
  check(options.growth == 0 || (options.growth > 0 && scaling.original_context > 0), kWhere, "growth is ", options.growth,
        " with an original context of ", scaling.original_context, ", expected both above zero, or no growth");
  const std::vector<double> frequencies = rope_frequencies(rotary_dims, theta, scaling, options.context);
  const double by = scaling.kind == Kind::yarn || scaling.kind == Kind::longrope ? scaling.attention_factor : 1;
  const Shape shape{positions, rotary_dims / 2};
  std::vector<float> cos(size_t(shape.numel())), sin(cos.size());
  for (size_t i = 0; i < cos.size(); ++i) {
    const int64_t p = int64_t(i / frequencies.size());
    const double angle = double(p) * frequencies[i % frequencies.size()];
    const double size = options.growth == 0 ? by : by * (1 + options.growth * std::log(1 + double(p / scaling.original_context)));
    cos[i] = float(size * std::cos(angle));
    sin[i] = float(size * std::sin(angle));
  }
  return {Tensor::from_host(device, shape, cos), Tensor::from_host(device, shape, sin)};
}

RopeTable rope_table(Device& device, int64_t positions, int64_t rotary_dims, double theta, const RopeScaling& scaling) {
  return rope_table(device, positions, rotary_dims, theta, RopeTableOptions{.scaling = scaling});
}

}  // namespace weft
