// weft bench on a simulated device: nothing is timed; what each kernel moves and computes is counted.
#pragma once

#include <string>

namespace weft::cli {

struct CountedOptions {
  std::string op, dtype, name;
  bool json = false;
};
int bench_counted(const CountedOptions& options);

}  // namespace weft::cli
