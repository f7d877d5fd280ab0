#include "bench/breakdown.h"

#include <algorithm>
#include <memory>

namespace weft::bench {
namespace {

class Times : public LaunchWatch {
 public:
  explicit Times(Stream& stream) : stream_(stream) { stream_.set_watch(this); }
  ~Times() override { stream_.set_watch(nullptr); }
  Times(const Times&) = delete;
  Times& operator=(const Times&) = delete;

  void before(const char* op) override { launches_.push_back({op, stream_.moment(), nullptr}); }
  void after() override { launches_.back().end = stream_.moment(); }
  void clear() { launches_.clear(); }

  std::map<std::string, OpShare> by_op() const {
    std::map<std::string, OpShare> shares;
    for (const TimedLaunch& launch : launches_) {
      OpShare& share = shares[launch.op];
      share.op = launch.op;
      ++share.launches;
      share.seconds += launch.end->seconds_since(*launch.start);
    }
    return shares;
  }

 private:
  struct TimedLaunch {
    const char* op;
    std::unique_ptr<Moment> start, end;
  };
  Stream& stream_;
  std::vector<TimedLaunch> launches_;
};

}  // namespace

double Breakdown::seconds() const {
  double sum = outside_seconds;
  for (const OpShare& op : ops) sum += op.seconds;
  return sum;
}

Breakdown break_down(Device& device, int times, const OpCosts& costs, const std::function<void()>& body) {
  Times watch(device.stream());
  body();
  watch.clear();
  const double total = device.stream().seconds_of([&] {
    for (int i = 0; i < times; ++i) body();
  });
  Breakdown result{.ops = {}, .outside_seconds = total / times};
  for (auto& [op, share] : watch.by_op()) {
    const auto cost = costs.find(op);
    result.ops.push_back({op, share.launches / times, share.seconds / times, cost == costs.end() ? Cost{} : cost->second.cost});
    result.outside_seconds -= result.ops.back().seconds;
  }
  std::sort(result.ops.begin(), result.ops.end(), [](const OpShare& a, const OpShare& b) { return a.seconds > b.seconds; });
  return result;
}

}  // namespace weft::bench
