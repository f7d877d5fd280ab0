// weft bench: every op at sizes that matter, against what the machine can do at most, measured in the same run.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/ceilings.h"
#include "bench/elementwise_loops.h"
#include "cli/command.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/spec/runner.h"

namespace weft::cli {
namespace {

struct Options {
  std::string device = "cpu", op, dtype, name;
  int threads = 0;
  bool json = false, quick = false;
};

struct Result {
  std::string op, name, dtype, ceiling;
  double ms, gbps, gflops, ratio;
};

// Problems up to this many elements are drawn as in a check; larger ones repeat a block of random values.
constexpr int64_t kDrawnWhole = int64_t(16) << 20;
// What --quick leaves out: cases that move or compute more than this.
constexpr double kQuickBytes = 64e6, kQuickFlops = 4e9;

// Outputs are left as they come; inputs repeat a block of values.
spec::Bound allocate_large(const spec::Problem& problem, Device& device) {
  constexpr int64_t kBlock = 65536;
  spec::Bound bound;
  for (const spec::Operand& operand : problem.operands()) {
    Tensor tensor = Tensor::empty(device, operand.shape, operand.dtype);
    if (operand.role != spec::Role::output) {
      const int64_t n = operand.shape.numel(), item = size_of(operand.dtype);
      spec::Problem block;
      block.input("block", operand.dtype, {std::min(n, kBlock)}, operand.fill);
      const spec::Bound sample = spec::upload(block, block.generate(1), device);
      std::vector<char> bytes(size_t(sample.tensor("block").numel() * item));
      device.download(bytes.data(), *sample.view("block").buffer, 0, int64_t(bytes.size()));
      for (int64_t i = 0; i < n; i += kBlock)
        device.upload(*tensor.view().buffer, i * item, bytes.data(), std::min(kBlock, n - i) * item);
    }
    bound.add(operand.name, tensor);
  }
  return bound;
}

spec::Bound materialise(const spec::Problem& problem, Device& device) {
  int64_t elements = 0;
  for (const spec::Operand& operand : problem.operands()) elements += operand.shape.numel();
  return elements <= kDrawnWhole ? spec::upload(problem, problem.generate(1), device) : allocate_large(problem, device);
}

// The loop that one would write by hand for an expression, on operands of its case, in tasks of the same size. Both in
// turns; the ratio is the loop's time over the op's: how much of the loop's speed the op reaches.
Result measure_hand_loop(const spec::Case& c, bench::ElementwiseLoop loop, const spec::Problem& problem, const spec::Bound& bound, Device& device, int threads) {
  constexpr int64_t kTask = 32768;
  const auto floats = [&](const char* name) { return reinterpret_cast<float*>(static_cast<char*>(bound.view(name).buffer->handle()) + bound.view(name).buffer->offset()); };
  const float *a = floats("x0"), *b = bound.has("x1") ? floats("x1") : a;
  float* y = floats("y0");
  const int64_t n = bound.tensor("y0").numel();
  const auto [time, op_time] = bench::median_times(
      [&] {
        parallel_for(ceil_div(n, kTask), threads, [&](int64_t task) { loop(a + task * kTask, b + task * kTask, y + task * kTask, std::min(kTask, n - task * kTask)); });
      },
      [&] { problem.run(device.stream(), bound); });
  const double bytes = double(n) * 4 * (bound.has("x1") ? 3 : 2);
  return {c.op + "." + c.variant, c.name + " hand loop", std::string(name(c.dtype)), "hand_loop", time * 1e3, bytes / time * 1e-9, 0, time / op_time};
}

Result measure(const spec::Case& c, const spec::Problem& problem, const spec::Bound& bound, Device& device, bench::Ceilings& ceilings) {
  const Cost cost = problem.cost(bound);
  const double time = bench::median_time([&] {
    problem.run(device.stream(), bound);
    device.synchronize();
  });
  const double by_compute = cost.flops / ceilings.fma(), by_memory = cost.bytes / ceilings.copy(cost.bytes);
  const bool compute = by_compute > by_memory;
  return {c.op + "." + c.variant, c.name, std::string(name(c.dtype)), compute ? "fma_gflops" : "copy_gbps", time * 1e3, cost.bytes / time * 1e-9,
          cost.flops / time * 1e-9, (compute ? by_compute : by_memory) / time};
}

void print_json(const Options& options, int threads, bench::Ceilings& ceilings, const std::vector<Result>& results) {
  nlohmann::ordered_json report = {{"device", options.device}, {"threads", threads}};
  auto& measured = report["ceilings"];
  measured["fma_gflops"] = ceilings.fma() * 1e-9;
  for (auto [label, bytes] : {std::pair{"1MB", 1e6}, {"16MB", 16e6}, {"256MB", 256e6}}) {
    measured["copy_gbps"][label] = ceilings.copy(bytes) * 1e-9;
    measured["triad_gbps"][label] = ceilings.triad(bytes) * 1e-9;
  }
  auto& list = report["results"] = nlohmann::ordered_json::array();
  for (const Result& r : results)
    list.push_back({{"op", r.op}, {"case", r.name}, {"dtype", r.dtype}, {"ms", r.ms}, {"gbps", r.gbps}, {"gflops", r.gflops}, {"ceiling", r.ceiling}, {"ratio", r.ratio}});
  std::printf("%s\n", report.dump(2).c_str());
}

void print(const Options& options, const Result& r) {
  if (options.json) return;
  std::printf("%-34s %-5s %-26s %10.3f %9.1f %9.1f   %.2f of %s\n", r.op.c_str(), r.dtype.c_str(), r.name.c_str(), r.ms, r.gbps, r.gflops, r.ratio, r.ceiling.c_str());
  std::fflush(stdout);
}

int run(const Options& options) {
  if (!options.dtype.empty()) dtype_from_name(options.dtype);
  const int threads = options.threads > 0 ? options.threads : available_threads();
  const auto device = open_device(options.device, {.threads = threads});
  const auto ceilings = bench::ceilings_of(*device, threads);
  spec::Registry registry;
  spec::add_all_specs(registry);

  if (!options.json) {
    std::printf("%s\nceilings: %.0f GFLOP/s f32 multiply-add, copy %.1f GB/s at 1 MB, %.1f GB/s at 256 MB\n\n", device->description().c_str(), ceilings->fma() * 1e-9,
                ceilings->copy(1e6) * 1e-9, ceilings->copy(256e6) * 1e-9);
    std::printf("%-34s %-5s %-26s %10s %9s %9s   %s\n", "op", "dtype", "case", "ms", "GB/s", "GFLOP/s", "of ceiling");
  }
  std::vector<Result> results;
  for (const spec::Case& c : registry.benches()) {
    const std::string dtype(name(c.dtype)), full = join(c.op, ".", c.variant, "/", options.device, "/", dtype, "/", c.name);
    if ((!options.op.empty() && options.op != c.op) || (!options.dtype.empty() && options.dtype != dtype) || full.find(options.name) == std::string::npos) continue;
    const spec::Problem problem = c.make();
    if (options.quick) {
      int64_t bytes = 0;
      for (const spec::Operand& operand : problem.operands()) bytes += operand.shape.numel() * size_of(operand.dtype);
      if (double(bytes) > kQuickBytes) continue;
      if (problem.cost(materialise(problem, *device)).flops > kQuickFlops) continue;
    }
    const spec::Bound bound = materialise(problem, *device);
    results.push_back(measure(c, problem, bound, *device, *ceilings));
    print(options, results.back());
    if (const auto loop = c.op == "elementwise" && c.dtype == DType::f32 && options.device == "cpu" ? bench::elementwise_loop(c.variant) : nullptr) {
      results.push_back(measure_hand_loop(c, loop, problem, bound, *device, threads));
      print(options, results.back());
    }
  }
  if (results.empty()) fail(ErrorCode::invalid_argument, "bench", "no case matches what was asked for");
  if (options.json) print_json(options, threads, *ceilings, results);
  return kOk;
}

}  // namespace

Run add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Time every op against ceilings measured in the same run");
  auto options = std::make_shared<Options>();
  command->add_option("--device", options->device, "Device to measure")->capture_default_str();
  command->add_option("--op", options->op, "Only this op (the name of its folder)");
  command->add_option("--dtype", options->dtype, "Only this dtype: f32, bf16");
  command->add_option("--case", options->name, "Only cases whose full name contains this");
  command->add_option("--threads", options->threads, "CPU threads (default: all this process may use)");
  command->add_flag("--quick", options->quick, "Only cases of up to 64 MB and 4 GFLOP");
  command->add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace weft::cli
