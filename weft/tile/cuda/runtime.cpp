#include <chrono>
#include <string>
#include <thread>

#include "weft/tile/cuda/runtime.h"

namespace weft::cuda {
namespace {

std::string describe(const Fault& f) {
  switch (f.kind) {
    case Fault::id_out_of_range: return join("id ", f.value, " at position ", f.at, " is out of range [0, ", f.limit, ")");
    case Fault::target_out_of_range: return join("target ", f.value, " at position ", f.at, " is out of range [0, ", f.limit, ")");
    case Fault::position_out_of_range:
      return join("position ", f.value, " of sequence ", f.at, " is outside the table of ", f.limit, " positions");
    case Fault::token_position_out_of_range: return join("position ", f.value, " of token ", f.at, " is out of range [0, ", f.limit, ")");
    case Fault::start_out_of_range: return join("start ", f.value, " of sequence ", f.at, " is outside [0, ", f.limit, "]");
    case Fault::bad_step: return join("the step is ", f.value, ", expected 1 or more");
    case Fault::bad_documents: return join("documents[", f.at, "] is ", f.value, ", expected lengths that ascend from 0 to ", f.limit);
    case Fault::none: break;
  }
  return "a kernel reported a fault";
}

class EventMoment : public Moment {
 public:
  explicit EventMoment(cudaStream_t stream) {
    require(cudaEventCreate(&event_), "cuda", "creating an event");
    require(cudaEventRecord(event_, stream), "cuda", "recording an event");
  }
  ~EventMoment() override { cudaEventDestroy(event_); }
  EventMoment(const EventMoment&) = delete;
  EventMoment& operator=(const EventMoment&) = delete;
  double seconds_since(const Moment& earlier) const override {
    float milliseconds = 0;
    require(cudaEventElapsedTime(&milliseconds, static_cast<const EventMoment&>(earlier).event_, event_), "cuda", "reading an event");
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace

CudaStream::CudaStream(Device& device, int index, bool planned) : Stream(device), index_(index), planned_(planned) {
  require(cudaSetDevice(index), "cuda", "choosing the device");
  require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cuda", "creating a stream");
  require(cudaHostAlloc(reinterpret_cast<void**>(&fault_), sizeof(Fault), cudaHostAllocMapped), "cuda", "allocating pinned memory");
  require(cudaMalloc(reinterpret_cast<void**>(&claimed_), sizeof(int)), "cuda", "allocating memory");
  require(cudaMemset(claimed_, 0, sizeof(int)), "cuda", "zeroing memory");
  *fault_ = {.claimed = claimed_};
  require(cudaHostGetDevicePointer(reinterpret_cast<void**>(&fault_on_device_), fault_, 0), "cuda", "mapping pinned memory");
}

CudaStream::~CudaStream() {
  cudaSetDevice(index_);
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
  cudaFreeHost(fault_);
  cudaFree(claimed_);
}

void CudaStream::not_while_capturing(const char* where, const char* what) const {
  check(!capturing_, where, what, " is not possible while a graph is being captured: what changes between replays is written before them");
}

void CudaStream::wait() {
  if (planned_) return;
  not_while_capturing("synchronize", "waiting for the device");
  cudaSetDevice(index_);
  const cudaError_t status = cudaStreamSynchronize(stream_);
  while (held_) std::this_thread::sleep_for(std::chrono::seconds(1));
  if (status != cudaSuccess) {
    cudaGetLastError();
    fail(ErrorCode::device_fault, "cuda", "work on the stream of cuda:", index_, " failed: ", cudaGetErrorString(status), " (",
         cudaGetErrorName(status), "); the last op launched was ", last_op());
  }
  if (fault_->kind == Fault::none) return;
  const Fault found = *fault_;
  *fault_ = {.claimed = claimed_};
  require(cudaMemsetAsync(claimed_, 0, sizeof(int), stream_), "cuda", "zeroing memory");
  report(found.op, describe(found));
}

std::unique_ptr<Moment> CudaStream::moment() {
  cudaSetDevice(index_);
  return std::make_unique<EventMoment>(stream_);
}

}  // namespace weft::cuda
