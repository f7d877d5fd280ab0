// One case of an op's spec, timed and set against its ceiling.
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
  double wanted = 0;       // 0: no figure of its own
  double wanted_rate = 0;  // GPUs: GB/s, or TFLOP/s where the ceiling is one of arithmetic; 0: none
  int attempts = 1;        // measured this often because the ceiling moved meanwhile
  bool disturbed = false;  // and it still did at the last attempt
  bool in_table = false;

  std::string full_name() const { return op + "." + variant; }
  double gbps() const { return cost.bytes / seconds * 1e-9; }
  double gflops() const { return cost.flops / seconds * 1e-9; }
};

// The operands of a problem on a device: values as in a check, or for a large problem a repeated block of them.
spec::Bound materialise(const spec::Problem& problem, Device& device);

// The median time of a launch between two measurements of the ceiling. When those differ by more than a tenth the
// machine was disturbed, and all of it is done again, three times at most.
Result measure(const spec::Case& c, const spec::Problem& problem, const spec::Bound& bound, Device& device, Ceilings& ceilings);

}  // namespace weft::bench
