#pragma once

namespace weft {

// What an op must do at least: bytes to move (each input read once, each output written once) and floating-point
// operations.
struct Cost {
  double bytes = 0;
  double flops = 0;
};

}  // namespace weft
