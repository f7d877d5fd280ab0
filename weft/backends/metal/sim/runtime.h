// The functions that running kernels call (shim/abi.h), and the group they act on.
#pragma once

#include "weft/backends/metal/sim/shim/abi.h"

namespace weft::metal::sim {

class Threadgroup;

// One table for the whole process: each function acts on the group that runs on the calling thread.
const weft_sim::Runtime& runtime();

// Sets that group while in scope.
class RunningThreadgroup {
 public:
  explicit RunningThreadgroup(Threadgroup* group);
  ~RunningThreadgroup();
  RunningThreadgroup(const RunningThreadgroup&) = delete;
  RunningThreadgroup& operator=(const RunningThreadgroup&) = delete;
};

}  // namespace weft::metal::sim
