// Figures over several results: the geometric mean of the products, attention forward and backward together.
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

// Those that the results are enough for.
std::vector<Figure> summarise(const std::vector<Result>& results);

}  // namespace weft::bench
