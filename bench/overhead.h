// Call overhead: ops on tensors of 64 floats.
#pragma once

#include <string>
#include <vector>

#include "weft/device/device.h"

namespace weft::bench {

struct CallCost {
  std::string what;
  double seconds = 0;  // per call, the median of batches
  double wanted = 0;   // target, at most
};

std::vector<CallCost> call_costs(Device& device);

}  // namespace weft::bench
