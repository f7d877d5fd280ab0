#include "weft/evaluate/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace weft {
namespace {

constexpr double kZ = 1.959963984540054;  // the normal distribution's 97.5 % point

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / double(values.size());
}

double standard_error_of(std::span<const double> values, double mean) {
  if (values.size() < 2) return NAN;
  double squares = 0;
  for (double value : values) squares += (value - mean) * (value - mean);
  const double n = double(values.size());
  return std::sqrt(squares / (n - 1)) / std::sqrt(n);
}

}  // namespace

Score share_score(std::string metric, std::span<const double> values) {
  const double p = mean_of(values), n = double(values.size());
  const double middle = (p + kZ * kZ / (2 * n)) / (1 + kZ * kZ / n);
  const double half = kZ / (1 + kZ * kZ / n) * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  return {std::move(metric), p, standard_error_of(values, p), std::max(0.0, middle - half), std::min(1.0, middle + half)};
}

Score mean_score(std::string metric, std::span<const double> values) {
  const double mean = mean_of(values), error = standard_error_of(values, mean);
  if (std::isnan(error)) return {std::move(metric), mean, NAN, NAN, NAN};
  return {std::move(metric), mean, error, std::max(0.0, mean - kZ * error), std::min(1.0, mean + kZ * error)};
}

Score ratio_score(std::string metric, std::span<const double> numerators, std::span<const double> denominators) {
  double above = 0, below = 0;
  for (double value : numerators) above += value;
  for (double value : denominators) below += value;
  const double ratio = above / below, n = double(numerators.size());
  if (numerators.size() < 2) return {std::move(metric), ratio, NAN, NAN, NAN};
  double squares = 0;
  for (size_t i = 0; i < numerators.size(); ++i) {
    const double residual = numerators[i] - ratio * denominators[i];
    squares += residual * residual;
  }
  const double error = std::sqrt(squares * n / (n - 1)) / below;
  return {std::move(metric), ratio, error, ratio - kZ * error, ratio + kZ * error};
}

Score power_score(std::string metric, double base, const Score& exponent) {
  const double value = std::pow(base, exponent.value);
  return {std::move(metric), value, value * std::log(base) * exponent.standard_error, std::pow(base, exponent.low),
          std::pow(base, exponent.high)};
}

}  // namespace weft
