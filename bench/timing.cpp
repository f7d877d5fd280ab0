#include "bench/timing.h"

#include <algorithm>
#include <chrono>

namespace weft::bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

double time_of(const std::function<void()>& body) {
  const double start = now();
  body();
  return now() - start;
}

double median(std::vector<double>& values) {
  std::nth_element(values.begin(), values.begin() + int64_t(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double median_of(const std::function<double()>& timed, double seconds, int least) {
  // The first parallel regions of a process can run at half speed: warm up with at least two runs and a fifth of the time.
  for (double total = timed() + timed(); total < seconds / 5;) total += timed();
  std::vector<double> times;
  for (double total = 0; total < seconds || int(times.size()) < least;) {
    times.push_back(timed());
    total += times.back();
    if (times.size() >= 3 && total > 8 * seconds) break;  // a slow case: three runs are enough
  }
  return median(times);
}

double median_time(const std::function<void()>& body, double seconds, int least) {
  return median_of([&] { return time_of(body); }, seconds, least);
}

std::pair<double, double> median_times(const std::function<void()>& first, const std::function<void()>& second, double seconds, int least) {
  first();
  second();
  std::vector<double> times[2];
  for (double total = 0; total < seconds || int(times[0].size()) < least;) {
    times[0].push_back(time_of(first));
    times[1].push_back(time_of(second));
    total += times[0].back() + times[1].back();
  }
  return {median(times[0]), median(times[1])};
}

}  // namespace weft::bench
