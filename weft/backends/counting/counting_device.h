// A device that counts instead of computing. A real training step run on it reports exactly what it would allocate, by use, and its FLOPs,
// before anything is allocated.
//
// It is the CPU backend without the arithmetic: each kernel adds its cost to the counts and runs only what it does around its tasks,
// checking its data and allocating its workspace. Buffers are addresses without memory until they are written, so uploaded ids and scalars
// exist and everything else reads as zeros. The pool and its source are the CPU's own: they cache, share and round as the real ones do, and
// report what those would hold.
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

// Uses this many threads (0: all that the process may use), on which workspace depends.
std::shared_ptr<Device> open_device(int threads);

// The counts of such a device.
Counts& counts(Device& device);

}  // namespace weft::counting
