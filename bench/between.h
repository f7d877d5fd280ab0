#pragma once

#include <algorithm>
#include <cmath>

namespace weft::bench {

// Times `body` between two measurements of the least time that the machine allows; repeats if those disagree.
template <class Result, class Least, class Body>
void measure_between(Result& result, Least least, Body body) {
  constexpr int kMostAttempts = 3;
  for (result.attempts = 1;; ++result.attempts) {
    const double before = least();
    result.seconds = body();
    const double after = least();
    result.ratio = (before + after) / 2 / result.seconds;
    result.disturbed = std::abs(before - after) > 0.1 * std::max(before, after);
    if (!result.disturbed || result.attempts == kMostAttempts) return;
  }
}

}  // namespace weft::bench
