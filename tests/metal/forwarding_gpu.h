// A Gpu that forwards every call to a simulated one; tests override what they need.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "weft/backends/metal/sim/simulator.h"
#include "weft/tile/metal/seam.h"

namespace weft {

class ForwardingGpu : public metal::Gpu {
 public:
  explicit ForwardingGpu(metal::SimMode mode) : gpu_(metal::open_simulator(mode)) {}
  std::string description() const override { return gpu_->description(); }
  DeviceTraits traits() const override { return gpu_->traits(); }
  int64_t total_memory() const override { return gpu_->total_memory(); }
  int64_t free_memory() const override { return gpu_->free_memory(); }
  void* new_buffer(int64_t bytes) override { return gpu_->new_buffer(bytes); }
  void delete_buffer(void* buffer) override { gpu_->delete_buffer(buffer); }
  char* contents(void* buffer) override { return gpu_->contents(buffer); }
  std::shared_ptr<metal::Library> library(const std::string& text, const std::string& name) override { return gpu_->library(text, name); }
  void encode(const metal::Dispatch& dispatch) override { gpu_->encode(dispatch); }
  void barrier() override { gpu_->barrier(); }
  void commit() override { gpu_->commit(); }
  void wait() override { gpu_->wait(); }
  metal::Counters counters() override { return gpu_->counters(); }
  void reset_counters() override { gpu_->reset_counters(); }

 protected:
  std::unique_ptr<metal::Gpu> gpu_;
};

}  // namespace weft
