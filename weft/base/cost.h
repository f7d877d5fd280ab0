#pragma once

namespace weft {

// The minimum an op must do: bytes to move (each input read once, each output written once) and floating-point operations.
struct Cost {
  double bytes = 0;
  double flops = 0;
};

}  // namespace weft
