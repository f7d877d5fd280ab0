// Overlapping kernels (programmatic dependent launch): a kernel starts while the previous one still runs, prefetches its weights, which no
// kernel writes, and then waits until all previous work has ended and is visible. Captured graphs keep this dependency.
//
// A kernel launched in this way must call wait_for_kernel_before() in every block before it accesses memory that other kernels write. It
// must call it even if it accesses none: later kernels rely on that.
#pragma once

#include "weft/tile/cuda/launch.h"

namespace weft::cuda {

__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}
// Lets the next kernel start once all blocks have called this; that kernel's own wait orders its accesses.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// Whether kernels may overlap on the stream's GPU.
inline bool overlaps(const CudaStream& stream) {
  int major = 0;
  require(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, stream.index()), "launch", "asking for the compute capability");
  return major >= 9;
}

// Launches a kernel that overlaps with the previous one on the stream.
template <class Params>
void launch_overlapping(Stream& on, const char* op, dim3 grid, unsigned threads, size_t shared, void (*kernel)(Params),
                        const Params& params) {
  const CudaStream& stream = of(on);
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || stream.planned()) return;
  cudaSetDevice(stream.index());
  if (int64_t(shared) > kLeastShared) {
    if (int64_t(shared) > shared_memory(stream))
      fail(ErrorCode::unsupported, op, "a launch needs ", shared, " bytes of shared memory for a block, this GPU has ",
           shared_memory(stream));
    require(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)), op,
            "asking for shared memory");
  }
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream.handle();
  config.attrs = &overlap;
  config.numAttrs = overlaps(stream) ? 1 : 0;
  require(cudaLaunchKernelEx(&config, kernel, params), op, "a launch");
}

}  // namespace weft::cuda
