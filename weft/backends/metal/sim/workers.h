// Threads of the system that run the groups of a launch, each with a Group of its own.
//
// A group that neither ends nor waits cannot be stopped from outside. When none of a launch's groups has ended for a
// while, run() gives up: its threads are left to themselves and nothing more can run.
#pragma once

#include <memory>

#include "weft/backends/metal/sim/launch.h"
#include "weft/tile/metal/seam.h"

namespace weft::metal::sim {

class Workers {
 public:
  explicit Workers(int count, bool flush_to_zero);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // Runs every group; what went wrong is in the launch. False: given up.
  bool run(const std::shared_ptr<Launch>& launch);

  Counters take_counters();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // also of the threads, which may outlive us
};

}  // namespace weft::metal::sim
