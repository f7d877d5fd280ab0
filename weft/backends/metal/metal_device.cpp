#include "weft/backends/metal/metal_device.h"

#include <cstring>

#include "weft/backends/metal/planned_gpu.h"
#include "weft/base/check.h"
#include "weft/device/checked.h"
#include "weft/tile/metal/runtime.h"

namespace weft::metal {
namespace {

// A block is a buffer object. It returns to the pool in stream order; the stream tracks hazards between its old user and its new one. The
// host waits before it accesses memory that running kernels use.
class SharedMemory : public MemorySource {
 public:
  SharedMemory(Gpu& gpu, MetalStream& stream) : gpu_(gpu), stream_(stream) {}

  void* obtain(int64_t bytes) override { return gpu_.new_buffer(bytes); }
  Room room() override {
    const int64_t free = gpu_.free_memory();
    return {free, free};  // as on the CPU: virtual addresses do not fragment
  }
  void give_back(void* handle, int64_t) override {
    finish(handle);
    gpu_.delete_buffer(handle);
  }
  void fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) override {
    finish(handle);
    std::memset(gpu_.contents(handle) + offset, value, size_t(bytes));
  }
  void read(void* handle, int64_t offset, void* host, int64_t bytes) override {
    finish(handle);
    std::memcpy(host, gpu_.contents(handle) + offset, size_t(bytes));
  }

 private:
  // The pool also works in destructors, where nothing may be thrown: a device fault is raised at the next synchronize.
  void finish(void* handle) {
    try {
      stream_.finish(handle);
    } catch (const Error& error) {
      stream_.report("metal", error.what());
    }
  }

  Gpu& gpu_;
  MetalStream& stream_;
};

class MetalDevice : public Device {
 public:
  MetalDevice(std::string name, std::unique_ptr<Gpu> gpu, const DeviceOptions& options, bool planned = false)
      : name_(std::move(name)),
        planned_(planned),
        gpu_(std::move(gpu)),
        stream_(*this, *gpu_),
        memory_(*gpu_, stream_),
        pool_(memory_, !planned && (options.checked || kAlwaysChecked), options.memory_limit) {}

  std::string name() const override { return name_; }
  std::string description() const override { return gpu_->description(); }
  DeviceTraits traits() const override { return gpu_->traits(); }
  Dialect dialect() const override { return Dialect::msl; }
  const Kernels& kernels() const override { return metal::kernels(); }
  Stream& stream() override { return stream_; }
  Pool& pool() override { return pool_; }

  MemoryInfo memory() override {
    const PoolStats stats = pool_.stats();
    return {gpu_->total_memory(), gpu_->free_memory(), stats.in_use, stats.high_water};
  }

  void write(const Buffer& to, int64_t offset, const void* from, int64_t bytes) override {
    if (bytes == 0 || planned_) return;
    stream_.finish(to.handle());
    std::memcpy(gpu_->contents(to.handle()) + to.offset() + offset, from, size_t(bytes));
  }
  void download(void* to, const Buffer& from, int64_t offset, int64_t bytes) override {
    if (!planned_) stream_.synchronize();  // raises faults that kernels reported
    if (bytes == 0) return;
    if (planned_) return void(std::memset(to, 0, size_t(bytes)));
    std::memcpy(to, gpu_->contents(from.handle()) + from.offset() + offset, size_t(bytes));
  }

  Gpu& gpu() { return *gpu_; }

 private:
  const std::string name_;
  const bool planned_;
  std::unique_ptr<Gpu> gpu_;
  MetalStream stream_;
  SharedMemory memory_;
  Pool pool_;
};

}  // namespace

std::shared_ptr<Device> make_device(std::string name, std::unique_ptr<Gpu> gpu, const DeviceOptions& options) {
  check(options.memory_limit >= 0, "metal", "a memory limit of ", options.memory_limit, " bytes is negative");
  return std::make_shared<MetalDevice>(std::move(name), std::move(gpu), options);
}

std::shared_ptr<Device> open_planned() { return std::make_shared<MetalDevice>("metal-planned", planned_gpu(), DeviceOptions{}, true); }

Gpu& gpu_of(Device& device) {
  check(device.dialect() == Dialect::msl, "metal", "device ", device.name(), " is not a Metal device");
  return static_cast<MetalDevice&>(device).gpu();
}

}  // namespace weft::metal
