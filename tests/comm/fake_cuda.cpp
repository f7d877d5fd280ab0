// The functions of CUDA's runtime that nccl_test needs, on the CPU: a stream is a thread that works through a queue, so that streams run at
// the same time and in no order but the one that events give them. "Device memory" is host memory.
#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

// One recording of an event.
struct Recorded {
  std::mutex mutex;
  std::condition_variable changed;
  bool reached = false;
  Clock::time_point time;
};

}  // namespace

struct CUevent_st {
  std::shared_ptr<Recorded> last() {
    const std::lock_guard lock(mutex);
    return recorded;
  }
  std::mutex mutex;
  std::shared_ptr<Recorded> recorded;
};

struct CUstream_st {
  CUstream_st() : thread([this] { run(); }) {}
  ~CUstream_st() {
    {
      const std::lock_guard lock(mutex);
      over = true;
    }
    changed.notify_all();
    thread.join();
  }
  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  void synchronize() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return queue.empty() && !busy; });
  }
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return over || !queue.empty(); });
      if (queue.empty()) return;
      const std::function<void()> work = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      work();
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool over = false, busy = false;
  std::thread thread;
};

extern "C" {

cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error"; }
const char* cudaGetErrorName(cudaError_t) { return "error"; }

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) { return *least = 0, *most = -5, cudaSuccess; }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return *stream = new CUstream_st, cudaSuccess; }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) { return *stream = new CUstream_st, cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { return stream->synchronize(), cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, cudaSuccess; }
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  stream->push([function, data] { function(data); });
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return *event = new CUevent_st, cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto recorded = std::make_shared<Recorded>();
  {
    const std::lock_guard lock(event->mutex);
    event->recorded = recorded;
  }
  stream->push([recorded] {
    const std::lock_guard lock(recorded->mutex);
    recorded->reached = true;
    recorded->time = Clock::now();
    recorded->changed.notify_all();
  });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (const auto recorded = event->last())
    stream->push([recorded] {
      std::unique_lock lock(recorded->mutex);
      recorded->changed.wait(lock, [&] { return recorded->reached; });
    });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto recorded = event->last();
  if (!recorded) return cudaSuccess;
  const std::lock_guard lock(recorded->mutex);
  return recorded->reached ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const auto a = start->last(), b = end->last();
  const std::scoped_lock lock(a->mutex, b->mutex);
  if (!a->reached || !b->reached) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(b->time - a->time).count();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) { return *memory = std::malloc(bytes), cudaSuccess; }
cudaError_t cudaFree(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) { return *memory = std::malloc(bytes), cudaSuccess; }
cudaError_t cudaFreeHost(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) { return *device = host, cudaSuccess; }
cudaError_t cudaMemset(void* memory, int value, size_t bytes) { return std::memset(memory, value, bytes), cudaSuccess; }
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  stream->push([=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}

}  // extern "C"
