// Launches kernels: pointers out of views, the stream, and an error that names the op and its shapes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <initializer_list>
#include <string>
#include <tuple>

#include "weft/tile/cuda/runtime.h"
#include "weft/tile/cuda/tiles.h"
#include "weft/tensor/data.h"

namespace weft::cuda {

// The device's name for an element type.
template <class T>
struct device_type {
  using type = T;
};
template <>
struct device_type<bf16> {
  using type = __nv_bfloat16;
};
template <>
struct device_type<f16> {
  using type = __half;
};
template <class T>
using device_t = typename device_type<T>::type;

inline bool aligned16(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

// Calls f.operator()<T>() with the device's type of this dtype.
template <class... Ts, class F>
void dispatch_device(DType dtype, F&& f) {
  dispatch<Ts...>(dtype, [&]<class T>() { f.template operator()<device_t<T>>(); });
}

// Workspace from the pool for kernels of this launch; the next user of the memory runs after them, on the same stream.
template <class T>
class Scratch {
 public:
  Scratch(const Stream& stream, int64_t count) : buffer_(stream.device().allocate(count * int64_t(sizeof(T)), MemoryUse::workspace)) {}
  T* data() const { return reinterpret_cast<T*>(static_cast<char*>(buffer_->handle()) + buffer_->offset()); }

 private:
  std::shared_ptr<Buffer> buffer_;
};

// One launch of an op. `operands`, which outlive it, are named in the error if it fails.
class Launch {
 public:
  static constexpr size_t kMostOperands = 4;

  Launch(Stream& stream, const char* op, std::initializer_list<const View*> operands) : stream_(of(stream)), op_(op) {
    assert(operands.size() <= kMostOperands);
    std::copy(operands.begin(), operands.end(), operands_.begin());
    cudaSetDevice(stream_.index());
  }

  // Launches nothing if there are no blocks, or on a planned stream.
  template <class... Parameters, class... Arguments>
  void operator()(dim3 grid, dim3 block, size_t shared, void (*kernel)(Parameters...), Arguments&&... arguments) const {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || stream_.planned()) return;
    if (int64_t(shared) > kLeastShared) {
      if (int64_t(shared) > shared_memory(stream_))
        fail(ErrorCode::unsupported, op_, "a launch needs ", shared, " bytes of shared memory for a block, this GPU has ",
             shared_memory(stream_));
      check(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)), grid,
            block, shared);
    }
    std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
    std::apply(
        [&](Parameters&... value) {
          void* pointers[] = {static_cast<void*>(&value)...};
          check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared, stream_.handle()), grid, block,
                shared);
        },
        values);
  }

  Fault* fault() const { return stream_.fault(); }
  const char* op() const { return op_; }

 private:
  void check(cudaError_t status, dim3 grid, dim3 block, size_t shared) const {
    if (status == cudaSuccess) return;
    cudaGetLastError();
    std::string shapes;
    for (const View* view : operands_)
      if (view && *view) shapes += join(shapes.empty() ? "" : ", ", view->dtype, " ", view->shape);
    fail(ErrorCode::device_fault, op_, "a launch on the stream of cuda:", stream_.index(), " failed: ", cudaGetErrorString(status),
         " (grid ", grid.x, "x", grid.y, "x", grid.z, ", block ", block.x, "x", block.y, ", ", shared, " bytes of shared memory; operands ",
         shapes, ")");
  }

  const CudaStream& stream_;
  const char* op_;
  std::array<const View*, kMostOperands> operands_{};
};

// Blocks of `threads` for `items`, at most 32 for each multiprocessor, where kernels stride over the items.
inline unsigned blocks_for(const Stream& stream, int64_t items, int threads, int most_per_multiprocessor = 32) {
  const int64_t wanted = (items + threads - 1) / threads, most = int64_t(multiprocessors(stream)) * most_per_multiprocessor;
  return unsigned(wanted < most ? wanted : most);
}

}  // namespace weft::cuda
