// Dispatches without a barrier between them: finds two of which one writes what the other reads or writes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/backends/metal/sim/dispatch_run.h"
#include "weft/backends/metal/sim/shadow.h"

namespace weft::metal::sim {

class UnorderedDispatches {
 public:
  void clear() { earlier_.clear(); }  // at a barrier or the end of a command buffer

  // Adds a dispatch that has run, with its accesses in order of address. Returns a description of its conflict with an earlier one, with
  // the names, files and lines of both; or "".
  std::string add(const std::shared_ptr<const DispatchRun>& launch, std::vector<Touched> touched);

 private:
  struct Done {
    std::shared_ptr<const DispatchRun> launch;
    std::vector<Touched> touched;
  };

  static std::string describe(const Done& before, const Touched& did, const Done& now, const Touched& does);

  std::vector<Done> earlier_;
};

}  // namespace weft::metal::sim
