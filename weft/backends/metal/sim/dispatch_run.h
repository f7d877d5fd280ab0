// One dispatch, ready to run: shared by all workers that run groups of it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/backends/metal/sim/module.h"
#include "weft/backends/metal/sim/shim/abi.h"

namespace weft::metal::sim {

class Shadow;

inline constexpr int64_t kMostThreadgroupBytes = 32768;
inline constexpr int kMostThreads = 1024;

struct DispatchRun {
  const char* op = "";
  std::shared_ptr<const Module> module;
  const weft_sim::Kernel* kernel = nullptr;
  weft_sim::Bindings bindings{};
  std::array<uint32_t, 3> groups{1, 1, 1};
  int threads = 1;
  int64_t threadgroup_bytes = 0;
  std::vector<std::vector<char>> copied;  // small arguments
  uint32_t copied_bindings = 0;           // a bit for each index
  uint32_t read_only_bindings = 0;        // as declared by the host
  bool counting = false;                  // count every memory access
  Shadow* shadow = nullptr;               // checks every access if set
  bool random = false;                    // random order of groups and threads
  uint64_t seed = 0;

  uint64_t group_count() const { return uint64_t(groups[0]) * groups[1] * groups[2]; }

  // The first fault ends the launch.
  void fault(const std::string& message) {
    const std::lock_guard lock(mutex);
    if (message_.empty()) message_ = message;
    stopped = true;
  }
  std::string fault() {
    const std::lock_guard lock(mutex);
    return message_;
  }

  std::atomic<bool> stopped{false};
  std::mutex mutex;

 private:
  std::string message_;
};

}  // namespace weft::metal::sim
