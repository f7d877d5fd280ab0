#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bench/breakdown.h"

namespace weft::cli {

// Time of a step by op.
void print_breakdown(const bench::Breakdown& breakdown);
nlohmann::ordered_json breakdown_json(const bench::Breakdown& breakdown);

}  // namespace weft::cli
