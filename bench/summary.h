// Figures over several results: the geometric mean of the matmuls, attention forward plus backward.
#pragma once

#include <string>
#include <vector>

#include "bench/measure.h"

namespace weft::bench {

struct Figure {
  std::string what;
  double achieved = 0;
  double wanted = 0;  // 0: none on this machine
};

// The figures that can be computed from the results.
std::vector<Figure> summarise(const std::vector<Result>& results);

}  // namespace weft::bench
