// Moves the memory bound to a launch while it runs: every binding gets addresses far from all others, so that an out-of-bounds access
// cannot hit another one. Bindings that share bytes still do: their addresses map the same pages. Unbound parameters get an invalid
// address.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/backends/metal/sim/dispatch_run.h"
#include "weft/backends/metal/sim/shadow.h"

namespace weft::metal::sim {

class Staging {
 public:
  // Moves the launch's bindings, and registers them with the shadow.
  Staging(DispatchRun& launch, Shadow& shadow);
  ~Staging();  // moves everything back
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

 private:
  struct View {
    int index;
    char* bound;             // address bound by the host
    char* mapped = nullptr;  // with margins on both sides
  };
  struct Block {
    char* from;
    uint64_t bytes;
    std::vector<View> views;
  };

  std::vector<Block> overlapping() const;
  void move(Block& block, Shadow& shadow);
  static char* begin_of(const Block& block, const View& view);

  DispatchRun& launch_;
  std::vector<Block> blocks_;
  std::vector<int> unbound_;
};

// The launch's name for the binding at this index.
std::string name_of(const weft_sim::Kernel& kernel, int index);

}  // namespace weft::metal::sim
