// Kernels of a chain that overlap (programmatic dependent launch): a kernel starts while the one before it still runs, prefetches its
// weights, which no kernel writes, and then waits until all work before it has ended and is visible. Captured graphs keep the edge.
//
// A kernel that is launched so must call wait_for_kernel_before() in every block before it reads or writes what others write. It must call
// it even if it writes nothing itself: the kernels after it rely on that.
#pragma once

#include "weft/tile/cuda/launch.h"

namespace weft::cuda {

__device__ __forceinline__ void wait_for_kernel_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}
// The next kernel may start once all blocks have called this; its own wait orders its reads.
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

// Launches a kernel that overlaps with the one before it on the stream.
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
