// Targets of each op: the ceiling that bounds it, and the fraction to reach.
#pragma once

#include <string_view>
#include <vector>

#include "bench/ceilings.h"
#include "weft/spec/registry.h"

namespace weft::bench {

struct Target {
  std::vector<Ceiling> ceilings;  // the lowest one counts; empty: multiply-adds or copy
  bool cold = false;              // operands are not in the caches, like weights and KV caches during decoding
  std::string_view exps_of = "";  // one exponential for each element of this operand
  double wanted = 0;              // fraction of that ceiling; 0: no target for this case alone
  bool in_table = false;          // included in `weft bench --table`
  bool replayed = false;          // timed as part of a captured graph, if the device captures
  double wanted_rate = 0;         // GPUs: GB/s or TFLOP/s, measured on an H200; 0: none
};

Target target_of(const spec::Case& c);
Target gpu_target_of(const spec::Case& c);

// Targets over several cases.
inline constexpr double kMatmulGeomean = 0.88, kMatmulLeast = 0.80, kMatmulBf16Geomean = 0.86, kAttention = 0.58, kAttentionBf16Speed = 1.5;

}  // namespace weft::bench
