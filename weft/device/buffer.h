// Device memory. A buffer comes from its device's pool and goes back there, in stream order, with its last user; or it
// is borrowed from the host (a mapped file), and its owner is kept as long as the buffer lives.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/device/memory_use.h"

namespace weft {

// A piece of raw memory: a handle (a pointer on CPU and CUDA, a buffer object on Metal) and a byte offset into it.
struct Block {
  void* handle = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;     // the size requested
  int64_t capacity = 0;  // the size of its class, guards excluded
  MemoryUse use = MemoryUse::activations;
};

class Buffer {
 public:
  Buffer(std::shared_ptr<Device> device, Block block);
  Buffer(std::shared_ptr<Device> device, Block block, std::shared_ptr<const void> owner);  // borrowed
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Device& device() const { return *device_; }
  void* handle() const { return block_.handle; }
  int64_t offset() const { return block_.offset; }
  int64_t bytes() const { return block_.bytes; }
  MemoryUse use() const { return block_.use; }
  void count_as(MemoryUse use);  // changes its use: an activation that becomes the gradient of a parameter
  bool borrowed() const { return owner_ != nullptr; }

  // Counts writes (Tensor::mut_view, Device::upload), so that a reader who needs the contents later can tell that they have
  // changed (weft/tensor/kept.h).
  uint64_t writes() const { return writes_; }
  void count_write() const { ++writes_; }

 private:
  std::shared_ptr<Device> device_;
  Block block_;
  std::shared_ptr<const void> owner_;
  mutable uint64_t writes_ = 0;
};

}  // namespace weft
