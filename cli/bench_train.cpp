#include "cli/bench_train.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/shared_train.h"
#include "bench/train.h"
#include "cli/breakdown.h"
#include "cli/command.h"
#include "weft/base/check.h"
#include "weft/train/agreement.h"
#include "weft/train/setup.h"

namespace weft::cli {
namespace {

using bench::TrainResult;

// Targets for nanoGPT's Shakespeare-character size on a CPU; 0: no target.
double wanted(const Device& device, const std::string& model, DType dtype) {
  return model != "shakespeare-char" || device.dialect() != Dialect::c ? 0 : dtype == DType::f32 ? 0.78 : 0.65;
}

nlohmann::ordered_json as_json(const TrainResult& r, double wanted) {
  nlohmann::ordered_json out = {{"dtype", r.dtype},         {"tokens", r.tokens},
                                {"ms", r.seconds * 1e3},    {"tokens_per_second", double(r.tokens) / r.seconds},
                                {"gflop", r.flops * 1e-9},  {"gflops", r.flops / r.seconds * 1e-9},
                                {"ceiling", r.ceiling},     {"peak_gflops", r.peak * 1e-9},
                                {"ratio", r.ratio},         {"attempts", r.attempts},
                                {"disturbed", r.disturbed}, {"breakdown", breakdown_json(r.breakdown)}};
  if (wanted > 0) out["wanted"] = wanted;
  return out;
}

void print(const TrainResult& r, double wanted) {
  std::printf("%-5s %9.2f ms/step %9.1f tokens/s %9.1f GFLOP/s %.3f of %s", r.dtype.c_str(), r.seconds * 1e3, double(r.tokens) / r.seconds,
              r.flops / r.seconds * 1e-9, r.ratio, r.ceiling.c_str());
  if (wanted > 0) std::printf("  target %.2f %s", wanted, r.disturbed ? "not measured" : r.ratio >= wanted ? "met" : "MISSED");
  std::printf("%s\n", r.disturbed ? "  (disturbed: the ceiling changed in every attempt, or was exceeded)" : "");
  print_breakdown(r.breakdown);
}

bench::TrainShape shape_of(const BenchTrainOptions& options, const Device& device) {
  bench::TrainShape shape{.model = preset(options.model)};
  check(options.dtype.empty() || options.dtype == "f32" || options.dtype == "bf16", "bench",
        "a training step is timed in f32 or bf16, got ", options.dtype);
  shape.pass_tokens = options.pass_tokens > 0 ? options.pass_tokens : default_micro_batch_tokens(device.name());
  if (options.batch > 0) shape.sequences = options.batch;
  if (options.sequence > 0) shape.tokens = options.sequence;
  check(shape.tokens <= shape.model.max_positions || options.sequence == 0, "bench", "--sequence is ", options.sequence,
        ", the model's context length is ", shape.model.max_positions);
  shape.tokens = std::min(shape.tokens, shape.model.max_positions);
  shape.model.embedding_dropout = shape.model.attention_dropout = shape.model.residual_dropout = 0;
  return shape;
}

nlohmann::ordered_json report_of(const BenchTrainOptions& options, const Device& device, const bench::TrainShape& shape) {
  return {{"device", device.name()},          {"threads", options.threads},
          {"model", options.model},           {"parameters", shape.model.parameter_count()},
          {"sequences", shape.sequences},     {"sequence", shape.tokens},
          {"pass_tokens", shape.pass_tokens}, {"results", nlohmann::ordered_json::array()}};
}

void print_shape(const BenchTrainOptions& options, const Device& device, const bench::TrainShape& shape) {
  std::printf("%s\n%s: %.1f million parameters; AdamW steps of %ld sequences of %ld tokens in micro-batches of up to %ld tokens\n",
              device.description().c_str(), options.model.c_str(), double(shape.model.parameter_count()) * 1e-6, long(shape.sequences),
              long(shape.tokens), long(shape.pass_tokens));
}

std::vector<DType> dtypes_of(const BenchTrainOptions& options) {
  if (!options.dtype.empty()) return {dtype_from_name(options.dtype)};
  return {DType::f32, DType::bf16};
}

nlohmann::ordered_json as_json(const bench::SharedTrainResult& r) {
  return {{"dtype", r.dtype},
          {"tokens", r.tokens},
          {"steps", r.steps},
          {"ms", r.seconds * 1e3},
          {"tokens_per_second", double(r.tokens) / r.seconds},
          {"seconds_waited", r.waited}};
}

void print(const bench::SharedTrainResult& r) {
  const double most = *std::max_element(r.waited.begin(), r.waited.end());
  double mean = 0;
  for (double each : r.waited) mean += each / double(r.waited.size());
  std::printf("%-5s %9.2f ms/step %9.1f tokens/s   communication that nothing hid: %.2f ms/step on average (%.1f %%), %.2f at most\n",
              r.dtype.c_str(), r.seconds * 1e3, double(r.tokens) / r.seconds, mean * 1e3, 100 * mean / r.seconds, most * 1e3);
}

}  // namespace

int bench_train(const BenchTrainOptions& options, Device& device) {
  bench::TrainShape shape = shape_of(options, device);
  const auto ceilings = bench::ceilings_of(device, options.threads);
  nlohmann::ordered_json report = report_of(options, device, shape);
  if (!options.json) print_shape(options, device, shape), std::printf("\n");
  for (DType dtype : dtypes_of(options)) {
    shape.dtype = dtype;
    const TrainResult result = bench::measure_training(shape, device, *ceilings, options.threads);
    report["results"].push_back(as_json(result, wanted(device, options.model, dtype)));
    if (!options.json) print(result, wanted(device, options.model, dtype));
  }
  if (options.json) std::printf("%s\n", report.dump(2).c_str());
  return kOk;
}

int bench_shared_train(const BenchTrainOptions& options, Device& device, Communicator& ranks, Sharding sharding) {
  bench::TrainShape shape;
  Agreement(ranks).all([&] {
    shape = shape_of(options, device);
    share_of(StepSize{.batch = shape.sequences, .sequence_tokens = shape.tokens, .pass_tokens = shape.pass_tokens}, ranks, sharding);
  });
  nlohmann::ordered_json report = report_of(options, device, shape);
  report["ranks"] = ranks.size();
  report["shard"] = std::string(name(sharding));
  if (ranks.first() && !options.json) {
    print_shape(options, device, shape);
    std::printf("%d ranks, %s, %d %s each; --shard %s\n\n", ranks.size(), ranks.description().c_str(), options.threads,
                options.threads == 1 ? "thread" : "threads", std::string(name(sharding)).c_str());
  }
  for (DType dtype : dtypes_of(options)) {
    shape.dtype = dtype;
    const bench::SharedTrainResult result = bench::measure_shared_training(shape, device, ranks, sharding);
    report["results"].push_back(as_json(result));
    if (ranks.first() && !options.json) print(result);
  }
  if (ranks.first() && options.json) std::printf("%s\n", report.dump(2).c_str());
  return kOk;
}

}  // namespace weft::cli
