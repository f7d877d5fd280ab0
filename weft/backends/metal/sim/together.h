// Dispatches that no barrier orders: finds two of which one writes what the other reads or writes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/backends/metal/sim/launch.h"
#include "weft/backends/metal/sim/shadow.h"

namespace weft::metal::sim {

class Together {
 public:
  void clear() { earlier_.clear(); }  // a barrier, or the end of a command buffer

  // A dispatch that has run, and what it has touched, in order of address. Says how it conflicts with an earlier one, with the
  // names, files and lines of both; or nothing.
  std::string add(const std::shared_ptr<const Launch>& launch, std::vector<Touched> touched);

 private:
  struct Done {
    std::shared_ptr<const Launch> launch;
    std::vector<Touched> touched;
  };

  static std::string describe(const Done& before, const Touched& did, const Done& now, const Touched& does);

  std::vector<Done> earlier_;
};

}  // namespace weft::metal::sim
