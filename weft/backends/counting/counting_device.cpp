#include "weft/backends/counting/counting_device.h"

#include <cstring>

#include "weft/backends/counting/table.h"
#include "weft/backends/cpu/cpu_device.h"
#include "weft/backends/cpu/system_memory.h"
#include "weft/base/check.h"
#include "weft/base/parallel.h"

namespace weft::counting {
namespace {

class CountingStream : public Stream {
 public:
  using Stream::Stream;
  bool synchronous() const override { return true; }

 protected:
  void wait() override {}
};

class CountingDevice : public cpu::HostDevice {
 public:
  explicit CountingDevice(int threads) : threads_(threads), memory_(false, true), pool_(memory_, false, 0), stream_(*this) {}

  std::string name() const override { return "counting"; }
  std::string description() const override {
    return join("counts the work of a CPU with ", threads_, threads_ == 1 ? " thread" : " threads");
  }
  Dialect dialect() const override { return Dialect::c; }
  DeviceTraits traits() const override { return {.matmul_in_order = true}; }
  const Kernels& kernels() const override { return counting::kernels(); }
  Stream& stream() override { return stream_; }
  Pool& pool() override { return pool_; }
  int threads() const override { return threads_; }
  MemoryInfo memory() override {
    const PoolStats stats = pool_.stats();
    return {0, 0, stats.in_use, stats.high_water};
  }
  void write(const Buffer& to, int64_t offset, const void* from, int64_t bytes) override {
    if (bytes) std::memcpy(static_cast<char*>(to.handle()) + to.offset() + offset, from, size_t(bytes));
  }
  // Nothing is computed: downloads return zeros, not what an upload left at the place of a result.
  void download(void* to, const Buffer&, int64_t, int64_t bytes) override {
    if (bytes) std::memset(to, 0, size_t(bytes));
  }

  Counts counts;

 private:
  const int threads_;
  cpu::SystemMemory memory_;
  Pool pool_;
  CountingStream stream_;
};

}  // namespace

Cost Counts::total() const {
  Cost sum;
  for (const auto& [kernel, count] : kernels_) sum.bytes += count.cost.bytes, sum.flops += count.cost.flops;
  return sum;
}

void Counts::add(const char* kernel, Cost cost) {
  KernelCount& entry = kernels_[kernel];
  ++entry.launches;
  entry.cost.bytes += cost.bytes;
  entry.cost.flops += cost.flops;
}

std::shared_ptr<Device> open_device(int threads) { return std::make_shared<CountingDevice>(threads > 0 ? threads : available_threads()); }

Counts& counts(Device& device) {
  check(device.name() == "counting", "counts", "device ", device.name(), " is not the counting device");
  return static_cast<CountingDevice&>(device).counts;
}

}  // namespace weft::counting
