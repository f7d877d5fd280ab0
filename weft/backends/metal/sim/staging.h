// The memory bound to a launch, moved for as long as it runs: every binding (or set of bindings that share bytes) gets a block far
// away from all others, so that an access outside of a binding cannot fall into another one. What is not bound gets an address
// that means nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/backends/metal/sim/launch.h"
#include "weft/backends/metal/sim/shadow.h"

namespace weft::metal::sim {

class Staging {
 public:
  // Moves what the launch has bound, and says it to the shadow.
  Staging(Launch& launch, Shadow& shadow);
  ~Staging();  // moves everything back
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

 private:
  struct Block {
    char* from;
    uint64_t bytes;
    std::vector<int> indices;
    char* mapped = nullptr;  // with margins on both sides
    char* to = nullptr;
  };

  std::vector<Block> overlapping() const;

  Launch& launch_;
  std::vector<Block> blocks_;
  std::vector<int> unbound_;
};

}  // namespace weft::metal::sim
