// weft bench: times every op at sizes that matter against ceilings of the machine measured in the same run.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "bench/elementwise_loops.h"
#include "bench/measure.h"
#include "bench/overhead.h"
#include "bench/summary.h"
#ifdef WEFT_HAS_METAL
#include "cli/bench_counted.h"
#endif
#include "cli/bench_model.h"
#include "cli/bench_serve.h"
#include "cli/bench_train.h"
#include "cli/ranked.h"
#include "weft/comm/cores.h"
#include "weft/comm/launch.h"
#include "weft/comm/on_device.h"
#include "weft/train/agreement.h"
#include "cli/command.h"
#include "cli/selection.h"
#include "cli/weights_flag.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/base/parallel.h"

namespace weft::cli {
namespace {

using bench::Ceiling;
using bench::Result;

struct Options {
  std::string device = "cpu", model, train, shard = "optimizer";
  Selection selection;
  WeightsFlag weights;
  int threads = 0;
  std::optional<int64_t> pass_tokens, batch, sequence, context;
  bench::ServeLoad load;
  SamplingOptions sampling;
  bool json = false, quick = false, table = false, overhead = false;
};

// --quick skips cases that move or compute more than this.
constexpr double kQuickBytes = 64e6, kQuickFlops = 4e9;

// Times a hand-written loop for an expression on the operands of its case, in tasks of the same size. Loop and op run in turns; the
// ratio is the loop's time over the op's: the share of the loop's speed that the op reaches.
Result measure_hand_loop(const spec::Case& c, bench::ElementwiseLoop loop, const spec::Problem& problem, const spec::Bound& bound,
                         Device& device, int threads) {
  constexpr int64_t kTask = 32768;
  const auto floats = [&](const char* name) {
    const Buffer& buffer = *bound.view(name).buffer;
    return reinterpret_cast<float*>(static_cast<char*>(buffer.handle()) + buffer.offset());
  };
  const float *a = floats("x0"), *b = bound.has("x1") ? floats("x1") : a;
  float* y = floats("y0");
  const int64_t n = bound.tensor("y0").numel();
  const auto [time, op_time] = bench::median_times(
      [&] {
        parallel_for(ceil_div(n, kTask), threads, [&](int64_t task) {
          const int64_t first = task * kTask;
          loop(a + first, b + first, y + first, std::min(kTask, n - first));
        });
      },
      [&] { problem.run(device.stream(), bound); });
  return {.op = c.op,
          .variant = c.variant,
          .name = c.name + " hand loop",
          .dtype = std::string(name(c.dtype)),
          .ceiling = "hand_loop",
          .seconds = time,
          .cost = {double(n) * 4 * (bound.has("x1") ? 3 : 2), 0},
          .ratio = time / op_time};
}

nlohmann::ordered_json ceilings_report(bench::Ceilings& ceilings) {
  nlohmann::ordered_json report;
  for (Ceiling kind : {Ceiling::fma, Ceiling::bf16_dot, Ceiling::exp}) report[name(kind)] = ceilings.measure(kind, 0) * 1e-9;
  for (Ceiling kind : {Ceiling::copy, Ceiling::triad, Ceiling::read, Ceiling::read_small})
    for (auto [label, bytes] : {std::pair{"1MB", 1e6}, {"16MB", 16e6}, {"256MB", 256e6}})
      report[name(kind)][label] = ceilings.measure(kind, bytes) * 1e-9;
  return report;
}

void print_json(const Options& options, int threads, bench::Ceilings& ceilings, const std::vector<Result>& results) {
  nlohmann::ordered_json report = {{"device", options.device}, {"threads", threads}, {"ceilings", ceilings_report(ceilings)}};
  auto& list = report["results"] = nlohmann::ordered_json::array();
  for (const Result& r : results) {
    list.push_back({{"op", r.full_name()},
                    {"case", r.name},
                    {"dtype", r.dtype},
                    {"ms", r.seconds * 1e3},
                    {"gbps", r.gbps()},
                    {"gflops", r.gflops()},
                    {"ceiling", r.ceiling},
                    {"ratio", r.ratio},
                    {"attempts", r.attempts},
                    {"disturbed", r.disturbed}});
    if (r.wanted > 0) list.back()["wanted"] = r.wanted;
    if (r.wanted_rate > 0) list.back()["wanted_rate"] = r.wanted_rate;
  }
  auto& figures = report["figures"] = nlohmann::ordered_json::array();
  for (const bench::Figure& f : bench::summarise(results)) {
    figures.push_back({{"what", f.what}, {"achieved", f.achieved}});
    if (f.wanted > 0) figures.back()["wanted"] = f.wanted;
  }
  std::printf("%s\n", report.dump(2).c_str());
}

std::string verdict(double achieved, double wanted) {
  char text[64] = "";
  if (wanted > 0) std::snprintf(text, sizeof text, "  target %.2f %s", wanted, achieved >= wanted ? "met" : "MISSED");
  return text;
}

void print_head(Device& device, bench::Ceilings& ceilings) {
  const auto giga = [&](Ceiling kind, double bytes = 0) { return ceilings.measure(kind, bytes) * 1e-9; };
  if (device.dialect() != Dialect::c) {
    std::printf("%s\nceilings: %.0f TFLOP/s bf16 GEMM, copy %.0f GB/s\n", device.description().c_str(), giga(Ceiling::bf16_dot) * 1e-3,
                giga(Ceiling::copy));
    std::printf("\n%-30s %-5s %-30s %9s %8s %8s   %s\n", "op", "dtype", "case", "ms", "GB/s", "GFLOP/s", "of ceiling");
    return;
  }
  std::printf("%s\nceilings: %.0f GFLOP/s f32 multiply-add, ", device.description().c_str(), giga(Ceiling::fma));
  if (const double dot = giga(Ceiling::bf16_dot)) std::printf("%.0f GFLOP/s bf16 dot, ", dot);
  std::printf("%.1f G exp/s\n", giga(Ceiling::exp));
  for (double bytes : {1e6, 16e6, 256e6})
    std::printf("          %3.0f MB: copy %.1f, triad %.1f, read %.1f (4 KiB pages %.1f) GB/s\n", bytes * 1e-6, giga(Ceiling::copy, bytes),
                giga(Ceiling::triad, bytes), giga(Ceiling::read, bytes), giga(Ceiling::read_small, bytes));
  std::printf("\n%-30s %-5s %-30s %9s %8s %8s   %s\n", "op", "dtype", "case", "ms", "GB/s", "GFLOP/s", "of ceiling");
}

// Rate of a result on a GPU: TFLOP/s if it is bound by arithmetic, else GB/s.
double rate_of(const Result& r) { return r.ceiling == name(Ceiling::bf16_dot) ? r.gflops() * 1e-3 : r.gbps(); }

std::string rate_verdict(const Result& r) {
  char text[64] = "";
  if (r.wanted_rate > 0)
    std::snprintf(text, sizeof text, "  target %.0f %s %s", r.wanted_rate, r.ceiling == name(Ceiling::bf16_dot) ? "TFLOP/s" : "GB/s",
                  rate_of(r) >= r.wanted_rate ? "met" : "MISSED");
  return text;
}

void print(const Result& r) {
  std::printf("%-30s %-5s %-30s %9.3f %8.1f %8.1f   %.2f of %s%s", r.full_name().c_str(), r.dtype.c_str(), r.name.c_str(), r.seconds * 1e3,
              r.gbps(), r.gflops(), r.ratio, r.ceiling.c_str(), (verdict(r.ratio, r.wanted) + rate_verdict(r)).c_str());
  if (r.disturbed)
    std::printf("  (disturbed: the ceiling changed in each of %d attempts)", r.attempts);
  else if (r.attempts > 1)
    std::printf("  (attempt %d)", r.attempts);
  std::printf("\n");
  std::fflush(stdout);
}

std::vector<spec::Case> cases_of(const Options& options, const spec::Registry& registry, bool gpu) {
  std::vector<spec::Case> cases = registry.benches();
  if (gpu) cases.insert(cases.end(), registry.gpu_benches().begin(), registry.gpu_benches().end());
  std::erase_if(cases, [&](const spec::Case& c) {
    const std::string dtype(name(c.dtype)), full = join(c.op, ".", c.variant, "/", options.device, "/", dtype, "/", c.name);
    return !options.selection.takes(c.op, dtype, full) ||
           (options.table && !(gpu ? bench::gpu_target_of(c) : bench::target_of(c)).in_table);
  });
  if (cases.empty()) options.selection.fail_empty("bench");
  return cases;
}

bool quick(const spec::Problem& problem, Device& device) {
  int64_t bytes = 0;
  for (const spec::Operand& operand : problem.operands()) bytes += operand.shape.numel() * size_of(operand.dtype);
  return double(bytes) <= kQuickBytes && problem.cost(bench::materialise(problem, device)).flops <= kQuickFlops;
}

int run_overhead(const Options& options, Device& device) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const bench::CallCost& cost : bench::call_costs(device)) {
    list.push_back({{"call", cost.what}, {"us", cost.seconds * 1e6}, {"wanted", cost.wanted * 1e6}});
    if (options.json) continue;
    std::printf("%-34s %7.3f us  target %.0f %s\n", cost.what.c_str(), cost.seconds * 1e6, cost.wanted * 1e6,
                cost.seconds < cost.wanted ? "met" : "MISSED");
  }
  if (options.json) std::printf("%s\n", nlohmann::ordered_json{{"device", options.device}, {"calls", list}}.dump(2).c_str());
  return kOk;
}

int run_ops(const Options& options, int threads, Device& device, const spec::Registry& registry) {
  const bool gpu = device.dialect() != Dialect::c;
  const std::vector<spec::Case> cases = cases_of(options, registry, gpu);
  const auto ceilings = bench::ceilings_of(device, threads);
  if (!options.json) print_head(device, *ceilings);
  std::vector<Result> results;
  const auto add = [&](Result result) {
    results.push_back(std::move(result));
    if (!options.json) print(results.back());
  };
  for (const spec::Case& c : cases) {
    const spec::Problem problem = c.make();
    if (options.quick && !quick(problem, device)) continue;
    const spec::Bound bound = bench::materialise(problem, device);
    add(bench::measure(c, problem, bound, device, *ceilings));
    if (const auto loop =
            c.op == "elementwise" && c.dtype == DType::f32 && options.device == "cpu" ? bench::elementwise_loop(c.variant) : nullptr)
      add(measure_hand_loop(c, loop, problem, bound, device, threads));
  }
  check(!results.empty(), "bench", "each of the ", cases.size(), " matching cases exceeds the limits of --quick");
  if (options.json) {
    print_json(options, threads, *ceilings, results);
  } else if (!gpu) {
    for (const bench::Figure& f : bench::summarise(results))
      std::printf("%-83s %.2f%s\n", f.what.c_str(), f.achieved, verdict(f.achieved, f.wanted).c_str());
  }
  return kOk;
}

int run_train(const Options& options) {
  std::unique_ptr<Communicator> ranks = open_communicator();
  return ranked(ranks, [&] {
    const int own = share_cores(*ranks, options.threads);
    const bool several = ranks->size() > 1;
    Sharding sharding = Sharding::optimizer;
    std::shared_ptr<Device> device;
    Agreement(*ranks).all([&] {
      sharding = sharding_from_name(options.shard);
      const Launch launch = several ? launch_of_environment() : Launch();
      device = open_device(several && options.device == "cuda" ? cuda_device_of(launch.local_rank, launch.local_size) : options.device,
                           {.threads = own});
    });
    const BenchTrainOptions train{.model = options.train,
                                  .dtype = options.selection.dtype,
                                  .threads = own > 0 ? own : available_threads(),
                                  .pass_tokens = options.pass_tokens.value_or(0),
                                  .batch = options.batch.value_or(0),
                                  .sequence = options.sequence.value_or(0),
                                  .json = options.json};
    if (!several) return bench_train(train, *device);
    ranks = on_device(std::move(ranks), *device);
    return bench_shared_train(train, *device, *ranks, sharding);
  });
}

int run(const Options& options) {
  const Selection& only = options.selection;
  if (!options.load.url.empty()) return bench_serve(options.load, options.json);
  spec::Registry registry;
  spec::add_all_specs(registry);
  only.check_names("bench", registry);
  for (const auto& [flag, value] : {std::pair{"--pass-tokens", options.pass_tokens},
                                    {"--batch", options.batch},
                                    {"--sequence", options.sequence},
                                    {"--context", options.context}})
    check(!value || *value >= 1, "bench", flag, " is ", value.value_or(0), ", expected 1 or more");
  check(!options.batch || !options.train.empty() || !options.model.empty(), "bench", "--batch needs --train or --model");
  check(!options.weights.int8() || !options.model.empty(), "bench", "--weights int8 needs --model");
  if (!options.train.empty()) return run_train(options);
  const auto device = open_device(options.device, {.threads = options.threads});
  const int threads = options.threads > 0 ? options.threads : available_threads();
  if (!options.model.empty())
    return bench_model({.model = options.model,
                        .dtype = only.dtype,
                        .threads = threads,
                        .json = options.json,
                        .int8 = options.weights.int8(),
                        .batch = options.batch.value_or(1),
                        .context = options.context.value_or(128),
                        .sampling = options.sampling},
                       *device);
#ifdef WEFT_HAS_METAL
  if (device->traits().simulated) return bench_counted({only, options.json}, registry);
#endif
  if (options.overhead) return run_overhead(options, *device);
  return run_ops(options, threads, *device, registry);
}

void add_serve_options(CLI::App& command, bench::ServeLoad& load) {
  command.add_option("--serve", load.url, "Send load to a server of OpenAI's API on this machine, by its URL, instead")
      ->excludes("--model")
      ->excludes("--train");
  const auto number = [&](const char* flag, int64_t& value, const char* what) {
    command.add_option(flag, value, what)->capture_default_str()->needs("--serve");
  };
  number("--clients", load.clients, "Concurrent requests");
  number("--requests", load.requests, "Total requests");
  number("--prompt-tokens", load.prompt_tokens, "Tokens of each prompt: random ids");
  number("--new-tokens", load.new_tokens, "Tokens of each answer");
  if (const char* key = std::getenv("WEFT_API_KEY")) load.api_key = key;
  load.seed = std::random_device()();
}

}  // namespace

Run add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Time every op against ceilings measured in the same run");
  auto options = std::make_shared<Options>();
  command->add_option("--device", options->device, "Device to measure")->capture_default_str();
  command->add_option("--model", options->model,
                      "Time a whole model of this shape with random weights instead of ops: smollm2-135m, gpt2-124m, ...");
  command->add_option("--train", options->train, "Time a training step of a model of this shape instead of ops, with a breakdown by op")
      ->expected(0, 1)
      ->default_str("shakespeare-char")
      ->excludes("--model");
  command->add_option("--pass-tokens,--micro-batch-tokens", options->pass_tokens, "Tokens per micro-batch at most (default: as weft train)")
      ->needs("--train");
  command->add_option("--batch", options->batch,
                      "Sequences per training step (default: 8), or with --model sequences decoded together (default: 1)");
  command->add_option("--context", options->context, "Tokens in the cache before decoding (default: 128)")->needs("--model");
  command->add_option("--temperature", options->sampling.temperature, "Sample the tokens that are decoded (default: 0, greedy)")
      ->needs("--model");
  command->add_option("--top-p", options->sampling.top_p, "Top-p of the sampling (default: 1)")->needs("--model");
  options->weights.add_to(*command);
  command->add_option("--sequence", options->sequence, "Tokens per sequence (default: 256)")->needs("--train");
  command->add_option("--shard", options->shard, "Under mpirun: what ranks keep a part of only: none, optimizer, gradients")
      ->capture_default_str()
      ->needs("--train");
  add_serve_options(*command, options->load);
  options->selection.add_to(*command);
  command->add_option("--threads", options->threads, "CPU threads (default: all this process may use)");
  command->add_flag("--table", options->table, "Only the cases of docs/performance.md that have a target");
  command->add_flag("--overhead", options->overhead, "Time the call overhead of ops on 64 floats instead");
  command->add_flag("--quick", options->quick, "Only cases of up to 64 MB and 4 GFLOP");
  command->add_flag("--json", options->json, "Print JSON");
  return [options] { return run(*options); };
}

}  // namespace weft::cli
