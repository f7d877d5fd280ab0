// weft bench on a simulated device: counts what each kernel moves and computes; nothing is timed.
#pragma once

#include "cli/selection.h"

namespace weft::cli {

struct CountedOptions {
  Selection selection;
  bool json = false;
};
int bench_counted(const CountedOptions& options, const spec::Registry& registry);

}  // namespace weft::cli
