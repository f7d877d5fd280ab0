// Owned device memory. A buffer comes from its device's pool and goes back there, in stream order, with its last user.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/device/memory_use.h"

namespace weft {

// A piece of raw memory: a handle (a pointer on CPU and CUDA, a buffer object on Metal) and a byte offset into it.
struct Block {
  void* handle = nullptr;
  int64_t offset = 0;
  int64_t bytes = 0;     // what was asked for
  int64_t capacity = 0;  // what the pool set aside, guards excluded
  MemoryUse use = MemoryUse::activations;
};

class Buffer {
 public:
  Buffer(std::shared_ptr<Device> device, Block block);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Device& device() const { return *device_; }
  const std::shared_ptr<Device>& shared_device() const { return device_; }
  void* handle() const { return block_.handle; }
  int64_t offset() const { return block_.offset; }
  int64_t bytes() const { return block_.bytes; }
  MemoryUse use() const { return block_.use; }

 private:
  std::shared_ptr<Device> device_;
  Block block_;
};

}  // namespace weft
