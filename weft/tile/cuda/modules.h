// Kernels compiled from text while the program runs: NVRTC, then kept in memory and on disk.
//
// The disk cache is $XDG_CACHE_HOME/weft/kernels (or ~/.cache/weft/kernels): one file per text, compiler and
// architecture, holding both the text and the binary, written under a temporary name and renamed, so that processes may
// share it. A file that does not hold the very text asked for is compiled anew. WEFT_KERNEL_CACHE=off leaves it alone.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft::cuda {

class Modules {
 public:
  Modules(int device, int capability) : device_(device), capability_(capability) {}
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // The kernel of this name in this text. `serial` stands for the text: it is found by that the next time.
  cudaKernel_t kernel(uint64_t serial, const std::string& text, const char* name);

 private:
  struct Loaded {
    cudaLibrary_t library;
    cudaKernel_t kernel;
  };
  std::vector<char> binary(const std::string& text);

  const int device_, capability_;
  std::mutex mutex_;
  std::unordered_map<uint64_t, cudaKernel_t> known_;  // by serial
  std::unordered_map<std::string, Loaded> loaded_;    // by text
};

}  // namespace weft::cuda
