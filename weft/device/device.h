// The seam between ops and hardware. A backend derives from Device for its cold lifecycle (about ten virtuals) and
// fills a Kernels table for the hot path.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weft/device/buffer.h"
#include "weft/device/kernels.h"
#include "weft/device/pool.h"
#include "weft/device/stream.h"
#include "weft/device/traits.h"

namespace weft {

enum class Dialect { c, cuda, msl };  // the language of its kernels
std::string_view name(Dialect dialect);

struct DeviceOptions {
  int threads = 0;           // CPU: at most this many; 0 means all that the process may use
  bool checked = false;      // poison and guard every buffer (always on in checked builds)
  int64_t memory_limit = 0;  // bytes the pool may reserve; 0: no limit
};

struct MemoryInfo {
  int64_t total = 0;            // of the device
  int64_t free = 0;             // bytes that can still be allocated
  int64_t in_use = 0;           // held by live buffers of this process
  int64_t high_water = 0;       // the most in use so far
  std::string_view limit = {};  // what bounds `free` ("the container's limit"); empty: the device's memory
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;         // "cpu", "cuda:0"
  virtual std::string description() const = 0;  // the hardware, in words
  // Names all that the bits of results depend on besides shapes and values: equal names, equal bits (docs/numerics.md).
  virtual std::string arithmetic() const { return description(); }
  virtual Dialect dialect() const = 0;
  virtual const Kernels& kernels() const = 0;
  virtual Stream& stream() = 0;
  virtual Pool& pool() = 0;
  virtual MemoryInfo memory() = 0;
  virtual DeviceTraits traits() const { return {}; }
  // Number of threads for work on the host: DeviceOptions::threads, else all that the process may use.
  virtual int host_threads() const;

  // Copies between host memory and `bytes` at `offset` of the buffer, in stream order. Both return when the host memory
  // may be reused or read. A download waits for all earlier work and raises its faults.
  void upload(const Buffer& to, int64_t offset, const void* from, int64_t bytes) {
    to.count_write();
    write(to, offset, from, bytes);
  }
  virtual void download(void* to, const Buffer& from, int64_t offset, int64_t bytes) = 0;

  // Host memory as a buffer of this device, without a copy; `owner` is kept until the last user is gone. nullptr: this device
  // cannot.
  virtual std::shared_ptr<Buffer> borrow(void* /*memory*/, int64_t /*bytes*/, std::shared_ptr<const void> /*owner*/) { return nullptr; }

  std::shared_ptr<Buffer> allocate(int64_t bytes) { return allocate(bytes, pool().use()); }
  std::shared_ptr<Buffer> allocate(int64_t bytes, MemoryUse use);
  void synchronize() { stream().synchronize(); }

 protected:
  virtual void write(const Buffer& to, int64_t offset, const void* from, int64_t bytes) = 0;  // upload
};

}  // namespace weft
