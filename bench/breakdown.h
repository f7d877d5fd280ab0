// Time of some work by op.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "weft/backends/counting/counting_device.h"
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

// Costs by op name.
using OpCosts = std::map<std::string, counting::KernelCount>;

// The mean over `times` runs of `body`, timed launch by launch and without replayed graphs, after one warm-up run. `costs` is the cost of
// one run, from the counting device.
Breakdown break_down(Device& device, int times, const OpCosts& costs, const std::function<void()>& body);

}  // namespace weft::bench
