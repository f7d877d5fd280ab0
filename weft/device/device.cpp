#include "weft/device/device.h"

#include <chrono>
#include <utility>

#include "weft/base/parallel.h"

namespace weft {

std::string_view name(Dialect dialect) {
  switch (dialect) {
    case Dialect::c: return "C";
    case Dialect::cuda: return "CUDA";
    case Dialect::msl: return "MSL";
  }
  return "";
}

int Device::host_threads() const { return available_threads(); }

std::shared_ptr<Buffer> Device::allocate(int64_t bytes, MemoryUse use) {
  return std::make_shared<Buffer>(shared_from_this(), pool().allocate(bytes, use));
}

void Buffer::count_as(MemoryUse use) {
  if (!borrowed()) device_->pool().recount(block_, use);
}

MemoryScope::MemoryScope(Device& device, MemoryUse use) : device_(device), before_(device.pool().use()) { device.pool().set_use(use); }
MemoryScope::~MemoryScope() { device_.pool().set_use(before_); }

Buffer::Buffer(std::shared_ptr<Device> device, Block block) : device_(std::move(device)), block_(block) {}

Buffer::Buffer(std::shared_ptr<Device> device, Block block, std::shared_ptr<const void> owner)
    : device_(std::move(device)), block_(block), owner_(std::move(owner)) {}

Buffer::~Buffer() {
  if (!owner_) device_->pool().release(block_);
}

void Stream::synchronize() {
  wait();
  raise_fault();
}

namespace {

// The host's clock, once all work before is done.
class HostMoment : public Moment {
 public:
  double seconds_since(const Moment& earlier) const override {
    return std::chrono::duration<double>(now_ - static_cast<const HostMoment&>(earlier).now_).count();
  }

 private:
  std::chrono::steady_clock::time_point now_ = std::chrono::steady_clock::now();
};

}  // namespace

std::unique_ptr<Moment> Stream::moment() {
  if (!synchronous()) wait();
  return std::make_unique<HostMoment>();
}

double Stream::seconds_of(const std::function<void()>& work) {
  const auto start = moment();
  work();
  const auto end = moment();
  synchronize();
  return end->seconds_since(*start);
}

// Cached blocks cannot be freed during a capture, because freeing waits for the stream: free them between two attempts.
std::unique_ptr<Graph> Stream::capture(const std::function<void()>& work) {
  try {
    return capture_once(work);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::out_of_memory) throw;
  }
  device_.pool().trim();
  return capture_once(work);
}

std::unique_ptr<Graph> Stream::capture_once(const std::function<void()>&) {
  fail(ErrorCode::unsupported, "capture", "device ", device_.name(), " has no graphs: run the work itself");
}

void Stream::report(std::string message) { report(last_op_, std::move(message)); }

void Stream::report(const char* op, std::string message) {
  if (!fault_.empty()) return;
  fault_op_ = op;
  fault_ = std::move(message);
}

void Stream::raise_fault() {
  if (fault_.empty()) return;
  const std::string message = std::exchange(fault_, {});
  fail(ErrorCode::device_fault, fault_op_, message);
}

}  // namespace weft
