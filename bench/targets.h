// What each op is held to: which ceiling bounds it, and how much of it is wanted.
#pragma once

#include <string_view>
#include <vector>

#include "bench/ceilings.h"
#include "weft/spec/registry.h"

namespace weft::bench {

struct Target {
  std::vector<Ceiling> ceilings;  // the one that allows least counts; empty: multiply-adds or copy
  bool cold = false;              // operands out of the caches, as weights and caches are when a token is made
  std::string_view exps_of = "";  // one exponential for each element of this operand
  double wanted = 0;              // of that ceiling; 0: nothing is asked of this case alone
  bool in_table = false;          // one of the cases of `weft bench --table`
  bool replayed = false;          // as part of a captured graph, where the device captures
  double wanted_rate = 0;         // GPUs: GB/s or TFLOP/s, measured on an H200; 0: nothing
};

Target target_of(const spec::Case& c);
Target gpu_target_of(const spec::Case& c);

// Figures wanted of several cases together.
inline constexpr double kMatmulGeomean = 0.88, kMatmulLeast = 0.80, kMatmulBf16Geomean = 0.86, kAttention = 0.58, kAttentionBf16Speed = 1.5;

}  // namespace weft::bench
