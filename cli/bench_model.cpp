#include "cli/bench_model.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/model.h"
#include "cli/breakdown.h"
#include "cli/command.h"
#include "weft/base/check.h"

namespace weft::cli {
namespace {

using bench::Ceiling;
using bench::ModelResult;

constexpr double kOutOfCache = 256e6;

nlohmann::ordered_json as_json(const ModelResult& r) {
  nlohmann::ordered_json out = {{"test", r.what},
                                {"dtype", r.dtype},
                                {"tokens", r.tokens},
                                {"ms", r.seconds * 1e3},
                                {"tokens_per_second", r.tokens / r.seconds},
                                {"gbps", r.cost.bytes / r.seconds * 1e-9},
                                {"gflops", r.cost.flops / r.seconds * 1e-9},
                                {"ceiling", r.ceiling},
                                {"ratio", r.ratio},
                                {"wanted", r.wanted},
                                {"attempts", r.attempts},
                                {"disturbed", r.disturbed}};
  if (r.memory.peak > 0) out["memory"] = {{"model", r.memory.model}, {"pool", r.memory.pool}, {"peak", r.memory.peak}};
  if (!r.breakdown.ops.empty()) out["breakdown"] = breakdown_json(r.breakdown);
  return out;
}

void print(const ModelResult& r) {
  const bool compute = r.cost.flops > 0;
  std::printf("%-8s %-5s %9.2f ms %9.1f tokens/s %9.1f %-8s %.2f of %s", r.what.c_str(), r.dtype.c_str(), r.seconds * 1e3,
              r.tokens / r.seconds, (compute ? r.cost.flops : r.cost.bytes) / r.seconds * 1e-9, compute ? "GFLOP/s" : "GB/s", r.ratio,
              r.ceiling.c_str());
  if (r.wanted > 0) std::printf("  target %.2f %s", r.wanted, r.ratio >= r.wanted ? "met" : "MISSED");
  std::printf("%s\n", r.disturbed ? "  (disturbed: the ceiling changed in every attempt)" : "");
  if (r.memory.peak > 0)
    std::printf("  memory: model %.1f MB, keys and values %.1f MB, at most %.1f MB in all\n", double(r.memory.model) * 1e-6,
                double(r.memory.pool) * 1e-6, double(r.memory.peak) * 1e-6);
  std::fflush(stdout);
}

std::string sampled(const SamplingOptions& options) {
  if (options.temperature == 0) return "greedy";
  char text[64];
  std::snprintf(text, sizeof text, "temperature %g, top-p %g", options.temperature, options.top_p);
  return text;
}

}  // namespace

int bench_model(const BenchModelOptions& options, Device& device) {
  const ModelConfig config = preset(options.model);
  check(options.dtype.empty() || options.dtype == "f32" || options.dtype == "bf16", "bench", "a model is timed in f32 or bf16, got ",
        options.dtype);
  const bench::ModelSizes sizes{.prompt_tokens = options.context, .batch = options.batch, .sampling = options.sampling};
  const auto ceilings = bench::ceilings_of(device, options.threads);
  nlohmann::ordered_json report = {{"device", device.name()},
                                   {"threads", options.threads},
                                   {"model", options.model},
                                   {"parameters", config.parameter_count()},
                                   {"prompt_tokens", sizes.prompt_tokens},
                                   {"new_tokens", sizes.new_tokens},
                                   {"batch", sizes.batch},
                                   {"temperature", sizes.sampling.temperature},
                                   {"top_p", sizes.sampling.top_p},
                                   {"weights", options.int8 ? "int8" : "in the model's dtype"}};
  for (Ceiling kind : {Ceiling::fma, Ceiling::bf16_dot}) report["ceilings"][name(kind)] = ceilings->measure(kind, 0) * 1e-9;
  for (Ceiling kind : {Ceiling::read, Ceiling::read_small}) report["ceilings"][name(kind)] = ceilings->measure(kind, kOutOfCache) * 1e-9;
  if (!options.json) {
    std::printf("%s\n%s: %.1f million parameters, random%s weights; %ld prompt tokens, %ld new tokens, batch %ld, %s\n",
                device.description().c_str(), options.model.c_str(), double(config.parameter_count()) * 1e-6, options.int8 ? " int8" : "",
                long(sizes.prompt_tokens), long(sizes.new_tokens), long(sizes.batch), sampled(sizes.sampling).c_str());
    for (const auto& [ceiling, value] : report["ceilings"].items()) std::printf("%s %.1f  ", ceiling.c_str(), value.get<double>());
    std::printf("\n\n");
  }
  report["results"] = nlohmann::ordered_json::array();
  for (DType dtype : {DType::f32, DType::bf16}) {
    if (!options.dtype.empty() && dtype_from_name(options.dtype) != dtype) continue;
    const auto model = make_model(config, device, /*seed=*/1, {.dtype = dtype, .int8 = options.int8});
    for (ModelResult& result : bench::measure_model(*model, *ceilings, options.threads, sizes)) {
      if (device.dialect() != Dialect::c) result.wanted = 0;  // the targets are for a CPU
      report["results"].push_back(as_json(result));
      if (options.json) continue;
      print(result);
      print_breakdown(result.breakdown);
    }
  }
  if (options.json) std::printf("%s\n", report.dump(2).c_str());
  return kOk;
}

}  // namespace weft::cli
