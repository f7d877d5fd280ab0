#include "bench/timed_device.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "weft/backends/cpu/cpu_device.h"
#include "weft/base/check.h"
#include "weft/ops/adamw/adamw.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/dropout/dropout.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/embedding/embedding.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/ops/kv_append/kv_append.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/ops/rope/rope.h"
#include "weft/ops/softmax/softmax.h"
#include "weft/ops/transpose_2d/transpose_2d.h"
#include "weft/ops/uniform/uniform.h"

namespace weft::bench {
namespace {

class TimedStream : public Stream {
 public:
  using Stream::Stream;
  bool synchronous() const override { return true; }

 protected:
  void wait() override {}
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::map<std::string, OpShare>& totals(Device& device);

Cost cost_of(const AdvanceStateArgs& args) { return {2 * bytes_of(args.state), 0}; }
template <class Args>
Cost cost_of(const Args& args) {
  return cost(args);
}

#define WEFT_TIMED(kernel, Args)                             \
  void kernel(Stream& stream, const Args& args) {            \
    const auto start = Clock::now();                         \
    cpu::kernels().kernel(stream, args);                     \
    const double seconds = seconds_since(start);             \
    OpShare& total = totals(stream.device())[Args::kOp];     \
    ++total.launches;                                        \
    total.seconds += seconds;                                \
    const Cost cost = cost_of(args);                         \
    total.cost.bytes += cost.bytes;                          \
    total.cost.flops += cost.flops;                          \
  }
WEFT_KERNELS(WEFT_TIMED)
#undef WEFT_TIMED

const Kernels& timed_kernels() {
#define WEFT_ENTRY(kernel, Args) .kernel = bench::kernel,
  static const Kernels kTable = {WEFT_KERNELS(WEFT_ENTRY)};
#undef WEFT_ENTRY
  return kTable;
}

class TimedDevice : public cpu::HostDevice {
 public:
  explicit TimedDevice(int threads) : threads_(threads), cpu_(cpu::open_device({.threads = threads})), stream_(*this) {}

  std::string name() const override { return "timed"; }
  std::string description() const override { return cpu_->description(); }
  Dialect dialect() const override { return cpu_->dialect(); }
  const Kernels& kernels() const override { return timed_kernels(); }
  Stream& stream() override { return stream_; }
  Pool& pool() override { return cpu_->pool(); }
  int threads() const override { return threads_; }
  MemoryInfo memory() override { return cpu_->memory(); }
  void write(const Buffer& to, int64_t offset, const void* from, int64_t bytes) override { cpu_->upload(to, offset, from, bytes); }
  void download(void* to, const Buffer& from, int64_t offset, int64_t bytes) override { cpu_->download(to, from, offset, bytes); }

  std::map<std::string, OpShare> totals;

 private:
  const int threads_;
  std::shared_ptr<Device> cpu_;
  TimedStream stream_;
};

std::map<std::string, OpShare>& totals(Device& device) { return static_cast<TimedDevice&>(device).totals; }

}  // namespace

std::shared_ptr<Device> open_timed_device(int threads) { return std::make_shared<TimedDevice>(threads); }

double Breakdown::seconds() const {
  double sum = outside_seconds;
  for (const OpShare& op : ops) sum += op.seconds;
  return sum;
}

Breakdown break_down(Device& timed, int times, const std::function<void()>& body) {
  check(timed.name() == "timed", "break_down", "device ", timed.name(), " takes no times");
  body();
  totals(timed).clear();
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) body();
  Breakdown result{.ops = {}, .outside_seconds = seconds_since(start) / times};
  for (auto [op, total] : totals(timed)) {
    result.ops.push_back({op, total.launches / times, total.seconds / times, {total.cost.bytes / times, total.cost.flops / times}});
    result.outside_seconds -= result.ops.back().seconds;
  }
  std::sort(result.ops.begin(), result.ops.end(), [](const OpShare& a, const OpShare& b) { return a.seconds > b.seconds; });
  return result;
}

}  // namespace weft::bench
