// Kernels compiled at run time by NVRTC, then cached in memory and on disk.
//
// The disk cache is $XDG_CACHE_HOME/weft/kernels (or ~/.cache/weft/kernels): one file per text, compiler, architecture and
// options (weft/io/file_cache.h), at most WEFT_KERNEL_CACHE_MIB (256) of them. A damaged one is compiled again.
// WEFT_KERNEL_CACHE=off disables it.
//
// The memory cache holds about kMost kernels, least recently used dropped first, and those of captured graphs as long as these live.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "weft/base/recent.h"
#include "weft/io/file_cache.h"

namespace weft::cuda {

class Modules {
 public:
  static constexpr size_t kMost = 512;
  class Module;
  using Held = std::vector<std::shared_ptr<const Module>>;

  Modules(int device, int capability);
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  // The kernel of this name in this text. `serial` stands for the text: it is found by that the next time.
  cudaKernel_t kernel(uint64_t serial, const std::string& text, const char* name);

  // From now on, all that is given out is also put into `held`, for who will use it later: a graph that is captured. Null: no more.
  void hold(Held* held);

 private:
  std::shared_ptr<const Module> load(const std::string& text, const char* name);
  void make_room();
  std::string binary(const std::string& text);

  const int device_, capability_;
  std::optional<FileCache> cache_;  // on disk; absent: there is no place for it
  std::mutex mutex_;
  Recent<uint64_t, std::shared_ptr<const Module>> known_;                // by serial
  std::unordered_map<std::string, std::weak_ptr<const Module>> loaded_;  // by text
  Held* held_ = nullptr;
};

}  // namespace weft::cuda
