// Medians of wall-clock times.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace weft::bench {

double time_of(const std::function<void()>& body);  // once, in seconds
double median(std::vector<double>& values);         // reorders them

// The median of the times of `body`, in seconds, after warm-up: at least `least` runs and `seconds` in all.
double median_time(const std::function<void()>& body, double seconds = 0.25, int least = 5);

// The same for the times that `timed` returns.
double median_of(const std::function<double()>& timed, double seconds = 0.25, int least = 5);

// The same for two bodies run in turns, so that a disturbance affects both.
std::pair<double, double> median_times(const std::function<void()>& first, const std::function<void()>& second, double seconds = 0.5,
                                       int least = 5);

}  // namespace weft::bench
