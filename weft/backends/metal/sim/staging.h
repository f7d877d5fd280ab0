// The memory bound to a launch, moved for as long as it runs: every binding gets addresses far away from all others, so that an
// access outside of it cannot fall into another one. Bindings that share bytes still do: their addresses stand for the same
// pages. What is not bound gets an address that means nothing.
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
  struct View {
    int index;
    char* bound;             // what the host bound
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

  Launch& launch_;
  std::vector<Block> blocks_;
  std::vector<int> unbound_;
};

// What a launch calls the binding at this index.
std::string name_of(const weft_sim::Kernel& kernel, int index);

}  // namespace weft::metal::sim
