#include "bench/summary.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/ceilings_cpu.h"

namespace weft::bench {
namespace {

void add_matmul(const std::vector<Result>& results, std::vector<Figure>& figures) {
  for (const std::string dtype : {"f32", "bf16"}) {
    double log_sum = 0, least = INFINITY;
    int count = 0;
    for (const Result& r : results) {
      if (r.op != "matmul" || r.dtype != dtype || r.wanted > 0) continue;  // M = 1 has its own target
      log_sum += std::log(r.ratio);
      least = std::min(least, r.ratio);
      ++count;
    }
    if (count == 0) continue;
    const bool f32 = dtype == "f32", dot = has_bf16_dot();
    const std::string of = f32 || !dot ? " of multiply-adds" : " of bf16 dot products", cases = ", " + std::to_string(count) + " cases";
    figures.push_back({"matmul " + dtype + " geometric mean" + of + cases, std::exp(log_sum / count),
                       f32   ? kMatmulGeomean
                       : dot ? kMatmulBf16Geomean
                             : 0});
    figures.push_back({"matmul " + dtype + " least" + of, least, f32 ? kMatmulLeast : 0});
  }
}

void add_attention(const std::vector<Result>& results, std::vector<Figure>& figures) {
  struct Sum {
    double least_time = 0, time = 0, flops = 0;
    int passes = 0;
  };
  std::map<std::string, std::map<std::string, Sum>> shapes;  // by case, by dtype
  for (const Result& r : results) {
    if (r.op != "causal_attention") continue;
    Sum& sum = shapes[r.name][r.dtype];
    sum.least_time += r.ratio * r.seconds;
    sum.time += r.seconds;
    sum.flops += r.cost.flops;
    ++sum.passes;
  }
  for (auto& [shape, by_dtype] : shapes) {
    const Sum &f32 = by_dtype["f32"], &bf16 = by_dtype["bf16"];
    if (f32.passes == 2)
      figures.push_back({"causal_attention f32 forward + backward " + shape + " of multiply-adds", f32.least_time / f32.time, kAttention});
    if (f32.passes == 2 && bf16.passes == 2)
      figures.push_back(
          {"causal_attention bf16 forward + backward " + shape + " of the f32 rate", f32.time / bf16.time, kAttentionBf16Speed});
  }
}

}  // namespace

std::vector<Figure> summarise(const std::vector<Result>& results) {
  std::vector<Figure> figures;
  add_matmul(results, figures);
  add_attention(results, figures);
  return figures;
}

}  // namespace weft::bench
