// weft check: checks every op against its float64 reference.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/check_one_order.h"
#include "cli/command.h"
#include "cli/selection.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/spec/runner.h"
#include "weft/train/work_line.h"

namespace weft::cli {
namespace {

using spec::Outcome;
using spec::Status;

struct Options {
  std::string device = "cpu", golden, part;
  Selection selection;
  CheckOneOrder one_order;
  int threads = 0;
  bool json = false, verbose = false, small = false, fresh = false;
};

// Collects outcomes, prints failures as they occur, and summarises by op.
class Report {
 public:
  Report(const Options& options, ShownProgress& progress) : options_(options), progress_(progress) {}

  void add(const Outcome& outcome) {
    outcomes_.push_back(outcome);
    if (options_.json) return;
    if (options_.verbose || !outcome.message.empty()) progress_.hide();
    if (outcome.status == Status::failed)
      std::printf("FAILED   %s\n         %s\n", outcome.name.c_str(), outcome.message.c_str());
    else if (outcome.status == Status::skipped && !outcome.message.empty())
      std::printf("skipped  %s: %s\n", outcome.name.c_str(), outcome.message.c_str());
    else if (options_.verbose)
      std::printf("%-8s %-64s error %.2e  bound %.2e\n", std::string(name(outcome.status)).c_str(), outcome.name.c_str(), outcome.error,
                  outcome.bound);
    std::fflush(stdout);
  }

  bool empty() const { return outcomes_.empty(); }
  int64_t count(Status status) const {
    return std::count_if(outcomes_.begin(), outcomes_.end(), [&](const Outcome& o) { return o.status == status; });
  }

  void print(const std::string& device) const {
    progress_.hide();
    if (options_.json) return print_json(device);
    if (options_.verbose) print_ulps();
    print_table();
  }

 private:
  // Prints the largest error over all cases of each function that guarantees an error in ulp.
  void print_ulps() const {
    std::map<std::string, std::pair<double, double>> functions;  // measured, guaranteed
    for (const Outcome& o : outcomes_) {
      if (o.ulps == 0 || o.bound == 0) continue;
      const size_t end = o.name.rfind('/'), begin = o.name.rfind('/', end - 1) + 1;  // "<op>.function/cpu/f32/exp/any"
      auto& [measured, promised] = functions[o.name.substr(begin, end - begin)];
      measured = std::max(measured, o.error / o.bound * o.ulps);
      promised = o.ulps;
    }
    if (functions.empty()) return;
    std::printf("\n%-12s %10s %10s   ulp of the result\n", "function", "measured", "guarantee");
    for (const auto& [function, ulps] : functions) std::printf("%-12s %10.3f %10.2f\n", function.c_str(), ulps.first, ulps.second);
  }

  void print_table() const {
    std::vector<std::string> ops;
    for (const Outcome& o : outcomes_)
      if (std::find(ops.begin(), ops.end(), o.op) == ops.end()) ops.push_back(o.op);
    std::printf("\n%-20s %8s %8s %8s   %s\n", "op", "passed", "failed", "skipped", "worst error / bound");
    for (const std::string& op : ops) {
      int64_t counts[3] = {};
      double worst = 0;
      for (const Outcome& o : outcomes_) {
        if (o.op != op) continue;
        ++counts[int(o.status)];
        if (o.bound > 0) worst = std::max(worst, o.error / o.bound);
      }
      std::printf("%-20s %8ld %8ld %8ld   %.2f\n", op.c_str(), counts[0], counts[1], counts[2], worst);
    }
    std::printf("\n%ld passed, %ld failed, %ld skipped\n", count(Status::passed), count(Status::failed), count(Status::skipped));
  }

  void print_json(const std::string& device) const {
    nlohmann::ordered_json report = {
        {"device", device}, {"passed", count(Status::passed)}, {"failed", count(Status::failed)}, {"skipped", count(Status::skipped)}};
    auto& cases = report["cases"] = nlohmann::ordered_json::array();
    for (const Outcome& o : outcomes_) {
      nlohmann::ordered_json entry = {{"name", o.name},   {"op", o.op},      {"dtype", o.dtype}, {"status", std::string(name(o.status))},
                                      {"error", o.error}, {"bound", o.bound}};
      if (!o.digest.empty()) entry["digest"] = o.digest;
      if (!o.message.empty()) entry["message"] = o.message;
      cases.push_back(std::move(entry));
    }
    std::printf("%s\n", report.dump(2).c_str());
  }

  const Options& options_;
  ShownProgress& progress_;
  std::vector<Outcome> outcomes_;
};

// Limit of --small: memory and race checkers, which run a hundred times slower, finish such a case at once.
bool small(const spec::Case& c) {
  constexpr int64_t kMost = 16384;
  int64_t elements = 0;
  for (const spec::Operand& operand : c.make().operands()) elements += operand.shape.numel();
  return elements <= kMost;
}

// `--part i/n`: selects every n-th case starting at the i-th (from 1), so that n processes cover all cases.
class Part {
 public:
  explicit Part(const std::string& text) {
    if (text.empty()) return;
    int read = 0;
    const bool good = std::sscanf(text.c_str(), "%lld/%lld%n", &which_, &parts_, &read) == 2 && size_t(read) == text.size() &&
                      which_ >= 1 && which_ <= parts_;
    weft::check(good, "check", "--part is ", text, ", expected i/n with 1 <= i <= n");
  }
  bool next() { return count_++ % parts_ == which_ - 1; }

 private:
  long long which_ = 1, parts_ = 1, count_ = 0;
};

// Devices of the same hardware with other thread counts: results must be bitwise equal.
std::vector<std::shared_ptr<Device>> siblings(const Options& options) {
  std::vector<std::shared_ptr<Device>> devices;
  if (options.device == "cpu")
    for (int threads : {1, 3}) devices.push_back(open_device("cpu", {.threads = threads, .checked = true}));
  return devices;
}

int run(const Options& options) {
  if (options.one_order.wanted)
    return options.one_order.run(*open_device(options.device, {.threads = options.threads}), options.selection.dtype, options.json);
  Part part(options.part);
  spec::Registry registry;
  spec::add_all_specs(registry);
  options.selection.check_names("check", registry);
  const auto device = open_device(options.device, {.threads = options.threads, .checked = !options.fresh});
  const auto others = siblings(options);
  ShownProgress progress;
  Report report(options, progress);

  const auto name_of = [&](const spec::Case& c) { return join(c.op, ".", c.variant, "/", device->name(), "/", c.dtype, "/", c.name); };
  std::vector<spec::Case> cases = registry.cases(), chosen;
  if (!options.golden.empty())
    for (spec::Case& c : spec::golden_cases(registry, options.golden)) cases.push_back(std::move(c));
  for (spec::Case& c : cases)
    if (options.selection.takes(c.op, std::string(name(c.dtype)), name_of(c)) && (!options.small || small(c)) && part.next())
      chosen.push_back(std::move(c));
  int64_t done = 0;
  for (const spec::Case& c : chosen) {
    report_progress({.what = "case", .done = done++, .total = int64_t(chosen.size())});
    report.add(spec::run_case(c, device, others));
    if (options.fresh) device->pool().trim();
    if (c.dtype != DType::f32 || device->traits().simulated) continue;  // the reference does not depend on dtype or device
    if (Outcome gradient = spec::run_gradient_check(c); gradient.status != Status::skipped) report.add(gradient);
  }
  for (const spec::Rejection& r : registry.rejections()) {
    const std::string full = join(r.op, ".rejects/", device->name(), "/", r.name);
    if (!options.fresh && options.selection.takes(r.op, "", full) && part.next()) report.add(spec::run_rejection(r, device));
  }

  if (report.empty()) options.selection.fail_empty("check");
  report.print(device->name());
  const int64_t ran = report.count(Status::passed) + report.count(Status::failed);
  check(ran > 0, "check", "every matching case was skipped");
  return report.count(Status::failed) ? kFailed : kOk;
}

}  // namespace

Run add_check(CLI::App& app) {
  CLI::App* command = app.add_subcommand("check", "Check every op, forward and backward, against its float64 reference");
  auto options = std::make_shared<Options>();
  command->add_option("--device", options->device, "Device to check")->capture_default_str();
  options->selection.add_to(*command);
  command->add_option("--golden", options->golden, "Also check against the golden data in this folder");
  command->add_option("--threads", options->threads, "CPU threads (default: all this process may use)");
  command->add_option("--part", options->part, "Only shard i of n of the cases, as i/n, to split a check over n processes");
  command->add_flag("--small", options->small, "Only cases of up to 16384 elements, for slow tools such as compute-sanitizer");
  command->add_flag(
      "--fresh", options->fresh,
      "Do not poison or reuse workspaces, for compute-sanitizer's initcheck; skips the cases with rejected arguments, whose operands "
      "are uninitialised");
  options->one_order.add_to(*command);
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("-v,--verbose", options->verbose, "Print every case");
  return [options] { return run(*options); };
}

}  // namespace weft::cli
