// The CPU as a device that adds up how long the launches of each op take.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/cost.h"
#include "weft/device/device.h"

namespace weft::bench {

// All launches of one op.
struct OpShare {
  std::string op;
  int64_t launches = 0;
  double seconds = 0;
  Cost cost;
};

struct Breakdown {
  std::vector<OpShare> ops;    // the slowest first
  double outside_seconds = 0;  // between launches

  double seconds() const;
};

std::shared_ptr<Device> open_timed_device(int threads);

// The mean over `times` runs of `body`, which works on such a device; after one more that is not counted.
Breakdown break_down(Device& timed, int times, const std::function<void()>& body);

}  // namespace weft::bench
