// The functions that running kernels call (shim/abi.h), and the group they act on.
#pragma once

#include "weft/backends/metal/sim/shim/abi.h"

namespace weft::metal::sim {

class Group;

// One table for the whole process: each function acts on the group that runs on the calling thread.
const weft_sim::Runtime& runtime();

// Sets that group while in scope.
class RunningGroup {
 public:
  explicit RunningGroup(Group* group);
  ~RunningGroup();
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;
};

}  // namespace weft::metal::sim
