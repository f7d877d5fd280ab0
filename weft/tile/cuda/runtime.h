// The backend's stream and errors that name their place, for launchers.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <memory>

#include "weft/base/check.h"
#include "weft/device/device.h"

namespace weft::cuda {

// Throws `device_fault` with CUDA's own words when a call failed; clears the error where it can be cleared.
inline void require(cudaError_t status, const char* where, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  fail(ErrorCode::device_fault, where, what, " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
}

// A fault that a kernel found in its data, in host memory that the device can write. The first report is kept: the thread that changes
// `claimed`, in device memory (where atomics work), from 0 to 1 writes it.
struct Fault {
  enum Kind : int {
    none = 0,
    id_out_of_range,
    target_out_of_range,
    position_out_of_range,
    token_position_out_of_range,
    start_out_of_range,
    bad_step,
    bad_documents
  };
  int kind = none;
  int* claimed = nullptr;
  const char* op = "";  // a string constant of the host
  long long value = 0, at = 0, limit = 0;
};

class CudaStream : public Stream {
 public:
  // planned: launchers take workspace as usual but launch nothing.
  CudaStream(Device& device, int index, bool planned = false);
  ~CudaStream() override;
  bool synchronous() const override { return false; }
  std::unique_ptr<Moment> moment() override;             // an event of the device
  bool captures() const override { return !watched(); }  // planned: the graph is its memory alone

  cudaStream_t handle() const { return stream_; }
  Fault* fault() const { return fault_on_device_; }
  int index() const { return index_; }
  bool planned() const { return planned_; }
  // Work other than our kernels: call(stream) passes it to the driver or a library.
  template <class Call>
  void enqueue(const char* op, const char* what, Call&& call) const {
    if (!planned_) require(call(stream_), op, what);
  }
  // Throws while a graph is captured: `what` would have to happen now.
  void not_while_capturing(const char* where, const char* what) const;
  // For another thread that is about to end the process because the device's memory is no longer valid (a transfer was aborted):
  // synchronize() and downloads do not return from now on.
  void hold() { held_ = true; }

 protected:
  void wait() override;
  std::unique_ptr<Graph> capture_once(const std::function<void()>& work) override;

 private:
  const int index_;
  const bool planned_;
  cudaStream_t stream_ = nullptr;
  Fault* fault_ = nullptr;            // as the host sees it
  Fault* fault_on_device_ = nullptr;  // the same memory, as kernels see it
  int* claimed_ = nullptr;
  bool capturing_ = false;
  std::atomic<bool> held_ = false;
};

inline CudaStream& of(Stream& stream) { return static_cast<CudaStream&>(stream); }

// Libraries that a device opens once, when first used.
class Blas;
class Modules;
Blas& blas(Stream& stream);
Modules& modules(Stream& stream);
int multiprocessors(const Stream& stream);
int64_t shared_memory(const Stream& stream);  // bytes that a block may have (tiles.h)

}  // namespace weft::cuda
