// Times one case of an op's spec and compares it with its ceiling.
#pragma once

#include <string>
#include <vector>

#include "bench/ceilings.h"
#include "bench/targets.h"
#include "weft/spec/problem.h"

namespace weft::bench {

struct Result {
  std::string op, variant, name, dtype, ceiling;
  double seconds = 0;
  Cost cost;
  double ratio = 0;        // achieved over ceiling
  double wanted = 0;       // target; 0: none
  double wanted_rate = 0;  // target on GPUs: GB/s, or TFLOP/s if the ceiling is arithmetic; 0: none
  int attempts = 1;        // number of measurements; repeated when the ceiling changed meanwhile
  bool disturbed = false;  // the ceiling changed in the last attempt too
  bool in_table = false;

  std::string full_name() const { return op + "." + variant; }
  double gbps() const { return cost.bytes / seconds * 1e-9; }
  double gflops() const { return cost.flops / seconds * 1e-9; }
};

// The operands of a problem on a device: values as in a check; a large problem repeats a block of them.
spec::Bound materialise(const spec::Problem& problem, Device& device);

// The median time of a launch, measured between two measurements of the ceiling. If those differ by more than a tenth, the machine was
// disturbed and everything is repeated, at most three times.
Result measure(const spec::Case& c, const spec::Problem& problem, const spec::Bound& bound, Device& device, Ceilings& ceilings);

}  // namespace weft::bench
