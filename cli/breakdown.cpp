#include "cli/breakdown.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace weft::cli {

void print_breakdown(const bench::Breakdown& breakdown) {
  if (breakdown.ops.empty()) return;
  const double total = breakdown.seconds();
  std::printf("  %-28s %8s %9s %7s %9s %8s\n", "timed launch by launch", "launches", "ms", "share", "GFLOP/s", "GB/s");
  for (const bench::OpShare& op : breakdown.ops)
    std::printf("  %-28s %8ld %9.2f %6.1f%% %9.1f %8.1f\n", op.op.c_str(), long(op.launches), op.seconds * 1e3, 100 * op.seconds / total,
                op.cost.flops / op.seconds * 1e-9, op.cost.bytes / op.seconds * 1e-9);
  std::printf("  %-28s %8s %9.2f %6.1f%%\n\n", "between launches", "", breakdown.outside_seconds * 1e3,
              100 * breakdown.outside_seconds / total);
  std::fflush(stdout);
}

nlohmann::ordered_json breakdown_json(const bench::Breakdown& breakdown) {
  nlohmann::ordered_json ops = nlohmann::ordered_json::array();
  for (const bench::OpShare& op : breakdown.ops)
    ops.push_back({{"op", op.op},
                   {"launches", op.launches},
                   {"ms", op.seconds * 1e3},
                   {"gflop", op.cost.flops * 1e-9},
                   {"mb", op.cost.bytes * 1e-6}});
  return {{"ops", ops}, {"between_launches_ms", breakdown.outside_seconds * 1e3}};
}

}  // namespace weft::cli
