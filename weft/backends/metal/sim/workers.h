// OS threads that run the groups of a launch, each with its own Threadgroup.
//
// A group that neither ends nor waits cannot be stopped from outside. If none of a launch's groups ends for a while, run() gives up: its
// threads are abandoned and nothing more can run.
#pragma once

#include <memory>

#include "weft/backends/metal/sim/dispatch_run.h"
#include "weft/tile/metal/seam.h"

namespace weft::metal::sim {

class Workers {
 public:
  explicit Workers(int count, bool flush_to_zero);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs every group; faults are recorded in the launch. False: given up.
  bool run(const std::shared_ptr<DispatchRun>& launch);

  Counters take_counters();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with the threads, which may outlive this object
};

}  // namespace weft::metal::sim
