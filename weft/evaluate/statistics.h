// Scores with their standard errors and 95 % confidence intervals.
#pragma once

#include <span>
#include <string>

namespace weft {

struct Score {
  std::string metric;
  double value = 0;
  double standard_error = 0;  // NaN for fewer than two examples
  double low = 0, high = 0;   // of the confidence interval; NaN likewise, except for shares
};

// Share of examples that are right (values 0 and 1). Standard error: the sample's standard deviation (with n - 1) over sqrt(n), as in
// lm-eval. Interval: Wilson's, which stays within 0 and 1 and has a width where all examples are right.
Score share_score(std::string metric, std::span<const double> values);

// Mean of values between 0 and 1. Interval: 1.96 standard errors on both sides, within 0 and 1.
Score mean_score(std::string metric, std::span<const double> values);

// sum(numerators) / sum(denominators), such as bits over bytes. Standard error: the ratio estimator's, of the residuals
// numerator - ratio denominator. Interval: 1.96 of them on both sides.
Score ratio_score(std::string metric, std::span<const double> numerators, std::span<const double> denominators);

// base^value of a score: the interval is that of its ends, the standard error by the derivative.
Score power_score(std::string metric, double base, const Score& exponent);

}  // namespace weft
