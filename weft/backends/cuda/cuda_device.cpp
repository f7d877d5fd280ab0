#include "weft/backends/cuda/cuda_device.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "weft/backends/counting/address_space.h"
#include "weft/tile/cuda/blas.h"
#include "weft/device/checked.h"
#include "weft/tile/cuda/modules.h"
#include "weft/tile/cuda/runtime.h"
#include "weft/tile/cuda/tiles.h"
#include "weft/tile/cuda/upload_ring.h"

namespace weft::cuda {
namespace {

// cudaMalloc maps 2 MiB at a time; smaller blocks share a mapping.
constexpr int64_t kMapped = int64_t(2) << 20;
int64_t memory_behind(int64_t bytes) { return bytes < kMapped ? bytes : (bytes + kMapped - 1) / kMapped * kMapped; }

// Blocks return to the pool in stream order, and every kernel and copy runs on that one stream: a block may be reused while its last reader
// is still queued. Only returning memory to the driver waits (cudaFree does).
class DeviceMemory : public MemorySource {
 public:
  explicit DeviceMemory(const CudaStream& stream) : stream_(stream) {}

  void* obtain(int64_t bytes) override {
    use();
    void* memory = nullptr;
    if (cudaMalloc(&memory, size_t(bytes)) == cudaSuccess) {
      held_ += memory_behind(bytes);
      return memory;
    }
    cudaGetLastError();  // clears the out-of-memory error, which is not sticky
    return nullptr;
  }
  int64_t held() const override { return held_; }
  // The driver reports what is free; the largest block is found by trial allocation.
  Room room() override {
    use();
    size_t free = 0, total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) return {};
    int64_t fits = 0, most = int64_t(free) / kMapped;
    while (fits < most) {
      const int64_t middle = (fits + most + 1) / 2;
      void* memory = nullptr;
      const bool there = cudaMalloc(&memory, size_t(middle * kMapped)) == cudaSuccess;
      there ? cudaFree(memory) : cudaGetLastError();
      (there ? fits : most) = there ? middle : middle - 1;
    }
    return {int64_t(free), fits * kMapped};
  }
  void give_back(void* handle, int64_t bytes) override {
    use();
    cudaStreamSynchronize(stream_.handle());
    cudaFree(handle);
    held_ -= memory_behind(bytes);
  }
  void fill(void* handle, int64_t offset, uint8_t value, int64_t bytes) override {
    use();
    require(cudaMemsetAsync(static_cast<char*>(handle) + offset, value, size_t(bytes), stream_.handle()), "pool", "filling a buffer");
  }
  void read(void* handle, int64_t offset, void* host, int64_t bytes) override {
    use();
    require(cudaMemcpyAsync(host, static_cast<char*>(handle) + offset, size_t(bytes), cudaMemcpyDeviceToHost, stream_.handle()), "pool",
            "reading a buffer");
    require(cudaStreamSynchronize(stream_.handle()), "pool", "reading a buffer");
  }

 private:
  void use() const { cudaSetDevice(stream_.index()); }
  const CudaStream& stream_;
  int64_t held_ = 0;
};

// Events for the slots of an UploadRing.
class SlotEvents {
 public:
  explicit SlotEvents(const CudaStream& stream) : stream_(stream) {}
  ~SlotEvents() {
    for (cudaEvent_t event : events_)
      if (event) cudaEventDestroy(event);
  }
  void create() {
    for (cudaEvent_t& event : events_) require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cuda", "creating an event");
  }
  void copy(char* to, const char* from, int64_t bytes) {
    require(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyHostToDevice, stream_.handle()), "upload", "copying");
  }
  void mark(int slot) { require(cudaEventRecord(events_[slot], stream_.handle()), "upload", "recording an event"); }
  void wait(int slot) { require(cudaEventSynchronize(events_[slot]), "upload", "waiting for a slot"); }

 private:
  const CudaStream& stream_;
  cudaEvent_t events_[UploadRing<SlotEvents>::kSlots] = {};
};

// Pinned staging memory for copies between host and device: small uploads use the slots of a ring, larger ones two halves in turns: one is
// filled or emptied while the other is being copied.
class Staging {
 public:
  static constexpr int64_t kHalf = int64_t(4) << 20;

  explicit Staging(const CudaStream& stream) : stream_(stream), slot_events_(stream), ring_(slot_events_) {}
  ~Staging() {
    if (!memory_) return;
    cudaSetDevice(stream_.index());
    cudaStreamSynchronize(stream_.handle());  // copies may be in flight
    for (cudaEvent_t event : free_) cudaEventDestroy(event);
    cudaFreeHost(memory_);
  }

  void upload(char* to, const char* from, int64_t bytes) {
    prepare("upload");
    if (bytes <= Ring::kMostUpload) return ring_.upload(memory_ + 2 * kHalf, to, from, bytes);
    for (int64_t done = 0, half = 0; done < bytes; done += kHalf, half ^= 1) {
      const int64_t piece = std::min(kHalf, bytes - done);
      require(cudaEventSynchronize(free_[half]), "upload", "waiting for a piece");
      std::memcpy(memory_ + half * kHalf, from + done, size_t(piece));
      require(cudaMemcpyAsync(to + done, memory_ + half * kHalf, size_t(piece), cudaMemcpyHostToDevice, stream_.handle()), "upload",
              "copying");
      require(cudaEventRecord(free_[half], stream_.handle()), "upload", "recording an event");
    }
  }

  void download(char* to, const char* from, int64_t bytes) {
    prepare("download");
    const auto piece_at = [&](int64_t done) { return std::min(kHalf, bytes - done); };
    const auto start = [&](int64_t done) {
      const int64_t half = done / kHalf & 1;
      require(cudaMemcpyAsync(memory_ + half * kHalf, from + done, size_t(piece_at(done)), cudaMemcpyDeviceToHost, stream_.handle()),
              "download", "copying");
      require(cudaEventRecord(free_[half], stream_.handle()), "download", "recording an event");
    };
    if (bytes > 0) start(0);
    for (int64_t done = 0; done < bytes; done += kHalf) {
      if (done + kHalf < bytes) start(done + kHalf);
      const int64_t half = done / kHalf & 1;
      require(cudaEventSynchronize(free_[half]), "download", "waiting for a piece");
      std::memcpy(to + done, memory_ + half * kHalf, size_t(piece_at(done)));
    }
  }

 private:
  using Ring = UploadRing<SlotEvents>;

  void prepare(const char* where) {
    stream_.not_while_capturing(where, "a copy between host and device");
    cudaSetDevice(stream_.index());
    if (memory_) return;
    require(cudaHostAlloc(reinterpret_cast<void**>(&memory_), size_t(2 * kHalf + Ring::kBytes), cudaHostAllocDefault), "cuda",
            "allocating pinned memory");
    for (cudaEvent_t& event : free_) require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cuda", "creating an event");
    slot_events_.create();
  }

  const CudaStream& stream_;
  char* memory_ = nullptr;  // two halves, then the slots of the ring
  cudaEvent_t free_[2] = {};
  SlotEvents slot_events_;
  Ring ring_;
};

class CudaDevice : public Device {
 public:
  CudaDevice(int index, const DeviceOptions& options)
      : index_(index),
        stream_(*this, index),
        memory_(std::make_unique<DeviceMemory>(stream_)),
        staging_(stream_),
        pool_(*memory_, options.checked || kAlwaysChecked, options.memory_limit) {
    read_properties();
  }
  // A planned device.
  explicit CudaDevice(int index)
      : index_(index),
        stream_(*this, index, true),
        memory_(std::make_unique<counting::AddressSpace>(memory_behind)),
        staging_(stream_),
        pool_(*memory_, false, 0) {
    read_properties();
  }

  std::string name() const override { return join("cuda:", index_); }
  std::string description() const override {
    return join(properties_.name, ", compute ", properties_.major, ".", properties_.minor, ", ", properties_.multiProcessorCount,
                " multiprocessors");
  }
  std::string arithmetic() const override {
    return join(properties_.name, ", compute ", properties_.major, ".", properties_.minor, ", ", shared_memory_,
                " bytes of shared memory, cuBLASLt ", cublasLtGetVersion());
  }
  Dialect dialect() const override { return Dialect::cuda; }
  // Measured on an H200 with GPT-2's head: 50257 columns take 5 to 8 times as long as 50304. Each chunk of logits reads and writes the
  // head's gradient (154 MB), so chunks are large: a power of two of elements whose f32 logits take up to a 64th of the memory, 2 GiB on an
  // H200. By the GPU's memory alone, not by what is free: chunks are part of the order of sums.
  DeviceTraits traits() const override {
    const int64_t most = int64_t(properties_.totalGlobalMem) / 256;
    return {.matmul_multiple = 64, .temporary_elements = int64_t(std::bit_floor(uint64_t(std::max(most, int64_t(16) << 20))))};
  }
  const Kernels& kernels() const override { return cuda::kernels(); }
  Stream& stream() override { return stream_; }
  Pool& pool() override { return pool_; }

  MemoryInfo memory() override {
    cudaSetDevice(index_);
    size_t free = 0, total = 0;
    require(cudaMemGetInfo(&free, &total), "cuda", "reading the free memory");
    const PoolStats stats = pool_.stats();
    return {int64_t(total), int64_t(free), stats.in_use, stats.high_water};
  }

  void write(const Buffer& to, int64_t offset, const void* from, int64_t bytes) override {
    if (!stream_.planned()) staging_.upload(static_cast<char*>(to.handle()) + to.offset() + offset, static_cast<const char*>(from), bytes);
  }
  void download(void* to, const Buffer& from, int64_t offset, int64_t bytes) override {
    if (stream_.planned()) {
      if (bytes) std::memset(to, 0, size_t(bytes));
      return;
    }
    staging_.download(static_cast<char*>(to), static_cast<const char*>(from.handle()) + from.offset() + offset, bytes);
    stream_.synchronize();  // raises faults that kernels reported
  }

  int multiprocessors() const { return properties_.multiProcessorCount; }
  int64_t shared_memory() const { return shared_memory_; }
  Blas& blas() {
    if (!blas_) blas_ = std::make_unique<Blas>(stream_);
    return *blas_;
  }
  Modules& modules() {
    if (!modules_) modules_ = std::make_unique<Modules>(index_, properties_.major * 10 + properties_.minor);
    return *modules_;
  }

 private:
  void read_properties() {
    require(cudaGetDeviceProperties(&properties_, index_), "cuda", "reading the device's properties");
    shared_memory_ = shared_memory_limit(int64_t(properties_.sharedMemPerBlockOptin), std::getenv("WEFT_CUDA_SHARED_MEMORY"));
  }

  const int index_;
  cudaDeviceProp properties_{};
  int64_t shared_memory_ = 0;
  CudaStream stream_;
  const std::unique_ptr<MemorySource> memory_;
  Staging staging_;
  Pool pool_;
  std::unique_ptr<Blas> blas_;
  std::unique_ptr<Modules> modules_;
};

CudaDevice& device_of(const Stream& stream) { return static_cast<CudaDevice&>(stream.device()); }

}  // namespace

Blas& blas(Stream& stream) { return device_of(stream).blas(); }
Modules& modules(Stream& stream) { return device_of(stream).modules(); }
int multiprocessors(const Stream& stream) { return device_of(stream).multiprocessors(); }
int64_t shared_memory(const Stream& stream) { return device_of(stream).shared_memory(); }

Inventory inventory() {
  int driver = 0, count = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) return {{}, "no NVIDIA driver is installed"};
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return {{}, cudaGetErrorString(status)};
  }
  Inventory found;
  for (int i = 0; i < count; ++i) found.devices.push_back(join("cuda:", i));
  if (found.devices.empty()) found.why = "the driver found no GPU";
  return found;
}

namespace {

void check_there(int index) {
  const Inventory found = inventory();
  if (found.devices.empty()) fail(ErrorCode::unsupported, "open_device", "no CUDA device: ", found.why);
  check(index >= 0 && index < int(found.devices.size()), "open_device", "there is no cuda:", index, ", this machine has ",
        found.devices.size());
}

}  // namespace

std::shared_ptr<Device> open_device(int index, const DeviceOptions& options) {
  check(options.memory_limit >= 0, "cuda", "a memory limit of ", options.memory_limit, " bytes is negative");
  check_there(index);
  return std::make_shared<CudaDevice>(index, options);
}

std::shared_ptr<Device> open_planned(int index) {
  check_there(index);
  return std::make_shared<CudaDevice>(index);
}

}  // namespace weft::cuda
