// What running kernels call (shim/abi.h), and what they run in.
#pragma once

#include "weft/backends/metal/sim/shim/abi.h"

namespace weft::metal::sim {

class Group;

// One for the whole process: each function acts on the group that runs on the calling thread.
const weft_sim::Runtime& runtime();

// Says which group that is, while in scope.
class RunningGroup {
 public:
  explicit RunningGroup(Group* group);
  ~RunningGroup();
  RunningGroup(const RunningGroup&) = delete;
  RunningGroup& operator=(const RunningGroup&) = delete;
};

}  // namespace weft::metal::sim
