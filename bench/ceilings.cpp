#include "bench/ceilings.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>

#include "bench/ceilings_cpu.h"
#include "weft/base/check.h"
#include "weft/base/parallel.h"

namespace weft::bench {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

float* floats(const Buffer& buffer) { return reinterpret_cast<float*>(static_cast<char*>(buffer.handle()) + buffer.offset()); }

class CpuCeilings : public Ceilings {
 public:
  CpuCeilings(Device& device, int threads) : device_(device), threads_(threads) {}

  double fma() override {
    if (fma_ > 0) return fma_;
    constexpr int64_t kSteps = 100'000;
    volatile float sink = 0;
    const auto chains = [&] { parallel_for(threads_, threads_, [&](int64_t) { sink = fma_chain(kSteps); }); };
    median_time(chains, 0.5);  // clocks settle
    return fma_ = double(threads_) * kFlopsPerStep * kSteps / median_time(chains, 0.5);
  }
  double copy(double bytes) override { return bandwidth(copy_, bytes, 2, [](float* const* p, int64_t n) { copy_chunk(p[0], p[1], n); }); }
  double triad(double bytes) override { return bandwidth(triad_, bytes, 3, [](float* const* p, int64_t n) { triad_chunk(p[0], p[1], p[2], n); }); }

 private:
  // Working sets are rounded to a power of two: neighbours share a measurement.
  template <class F>
  double bandwidth(std::map<int64_t, double>& known, double bytes, int arrays, F chunk) {
    const int64_t size = int64_t(std::bit_ceil(uint64_t(std::clamp(bytes, 4096.0, 1e9))));
    if (auto found = known.find(size); found != known.end()) return found->second;
    const int64_t n = size / 4 / arrays;
    std::shared_ptr<Buffer> buffers[3];
    float* p[3] = {};
    for (int i = 0; i < arrays; ++i) {
      buffers[i] = device_.allocate(n * 4);
      p[i] = floats(*buffers[i]);
      std::fill(p[i], p[i] + n, float(i + 1));
    }
    // Chunks of a quarter of each thread's share; small sets are repeated inside one parallel region.
    const int64_t tasks = threads_, share = ceil_div(n, tasks), repeats = std::max<int64_t>(1, 500'000 / std::max<int64_t>(n, 1));
    const double time = median_time([&] {
      parallel_for(tasks, threads_, [&](int64_t task) {
        const int64_t first = std::min(n, task * share), count = std::min(n, first + share) - first;
        float* at[3] = {p[0] + first, p[1] + first, p[2] ? p[2] + first : nullptr};
        for (int64_t r = 0; r < repeats; ++r) chunk(at, count);
      });
    });
    return known[size] = double(arrays) * 4 * double(n) * double(repeats) / time;
  }

  Device& device_;
  const int threads_;
  double fma_ = 0;
  std::map<int64_t, double> copy_, triad_;
};

}  // namespace

std::unique_ptr<Ceilings> ceilings_of(Device& device, int threads) {
  if (device.name() == "cpu") return std::make_unique<CpuCeilings>(device, threads);
  fail(ErrorCode::unsupported, "bench", "no ceilings are known for device ", device.name());
}

namespace {

double median(std::vector<double>& times) {
  std::nth_element(times.begin(), times.begin() + int64_t(times.size() / 2), times.end());
  return times[times.size() / 2];
}

double time_of(const std::function<void()>& body) {
  const double start = now();
  body();
  return now() - start;
}

}  // namespace

double median_time(const std::function<void()>& body, double seconds, int least) {
  // The first parallel regions of a process can run at half speed: two runs at least, and a fifth of the time.
  for (double total = time_of(body) + time_of(body); total < seconds / 5;) total += time_of(body);
  std::vector<double> times;
  for (double total = 0; total < seconds || int(times.size()) < least;) {
    times.push_back(time_of(body));
    total += times.back();
    if (times.size() >= 3 && total > 8 * seconds) break;  // a slow case: three runs say enough
  }
  return median(times);
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
