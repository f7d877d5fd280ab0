// A device that counts instead of computing. A real training step that runs on it tells exactly what it would allocate,
// by use, and how many operations it would do, before anything is allocated.
//
// It is the CPU backend with the work left out: each kernel adds its cost to the figures and then does what it does around
// its tasks, which is to check its data and to take its workspace. Buffers are addresses with no memory behind them until
// something is written there, so ids and scalars that are uploaded are really there and everything else reads as zeros. The
// pool and its source are the CPU's own: what they cache, share and round is what the real ones do, and what they would hold.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "weft/base/cost.h"
#include "weft/device/device.h"

namespace weft::counting {

struct KernelCount {
  int64_t launches = 0;
  Cost cost;
};

class Counts {
 public:
  const std::map<std::string, KernelCount>& kernels() const { return kernels_; }  // by name
  Cost total() const;
  void add(const char* kernel, Cost cost);
  void reset() { kernels_.clear(); }

 private:
  std::map<std::string, KernelCount> kernels_;
};

// With this many threads (0: all that the process may use), on which workspace depends.
std::shared_ptr<Device> open_device(int threads);

// The figures of such a device.
Counts& counts(Device& device);

}  // namespace weft::counting
