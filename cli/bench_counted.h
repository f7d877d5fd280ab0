// weft bench on a simulated device: nothing is timed; what each kernel moves and computes is counted.
#pragma once

#include "cli/selection.h"

namespace weft::cli {

struct CountedOptions {
  Selection selection;
  bool json = false;
};
int bench_counted(const CountedOptions& options, const spec::Registry& registry);

}  // namespace weft::cli
