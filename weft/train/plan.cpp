#include "weft/train/plan.h"

#include <algorithm>
#include <cstdio>

#include "weft/backends/counting/counting_device.h"
#include "weft/base/check.h"
#include "weft/models/load.h"
#include "weft/train/evaluate.h"
#include "weft/train/progress.h"
#include "weft/train/step.h"

namespace weft {
namespace {

constexpr MemoryUse kUses[] = {MemoryUse::weights, MemoryUse::gradients, MemoryUse::optimizer, MemoryUse::activations, MemoryUse::workspace};

std::string shrink_advice(const Plan& plan) {
  const auto largest = std::max_element(std::begin(kUses), std::end(kUses),
                                        [&](MemoryUse a, MemoryUse b) { return plan.memory.of(a).at_peak < plan.memory.of(b).at_peak; });
  switch (*largest) {
    case MemoryUse::activations: return "most of it are activations: try --recompute, or a smaller --pass-tokens or --sequence";
    case MemoryUse::optimizer: return "most of it is the optimizer's state: try --optimizer lion or muon, or --lora-rank";
    case MemoryUse::workspace: return "most of it is the kernels' workspace: try fewer --threads or a smaller --sequence";
    default: return "most of it are weights and gradients: try --dtype bf16, --lora-rank, or a smaller model";
  }
}

}  // namespace

Plan make_plan(const TrainConfig& config, const TrainingProblem& problem) {
  const auto device = counting::open_device(int(config.threads));
  const auto model = make_planned_model(config, problem.model, *device);
  const auto optimizer = make_optimizer(config, *model);
  const Unit unit = problem.data->training_unit(0);
  const int64_t units = config.batch * config.accumulate, together = units_together(units, int64_t(unit.ids.size()), config.pass_tokens), passes = units / together;
  TrainingStep step(*model, *optimizer, {.clip = config.clip, .recompute = config.recompute, .seed = uint64_t(config.seed), .pass_tokens = together * int64_t(unit.ids.size())});
  const auto count = [&](int64_t passes) {
    const std::vector<Unit> some(size_t(passes * together), unit);
    counting::counts(*device).reset();
    step.gradients(some);
    step.apply(0);
    return counting::counts(*device).total();
  };
  // All passes are alike: two are counted, after steps that left what a step leaves.
  Plan plan;
  plan.tokens = units * int64_t(unit.ids.size());
  const int64_t counted = std::min<int64_t>(passes, 2);
  count(counted);
  const Cost one = count(1), some = count(counted);
  plan.step = one;
  if (counted > 1) plan.step.flops += double(passes - 1) * (some.flops - one.flops), plan.step.bytes += double(passes - 1) * (some.bytes - one.bytes);
  validation_loss(*model, *problem.data, 1);
  if (problem.sums) sums_accuracy(*model, *problem.sums);
  for (const auto& prompt : sample_prompts(config, problem)) sample_text(*model, *problem.vocabulary, prompt, sample_options(config, problem));
  exported_weights(*model, model->dtype());  // at the end of the run
  plan.memory = device->pool().stats();
  for (const Parameter& p : model->all_parameters()) (p.value.requires_grad() ? plan.parameters : plan.kept) += p.value.numel();
  return plan;
}

std::string bytes_text(double bytes) {
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB"}) {
    if (bytes < 1024) break;
    bytes /= 1024;
    unit = next;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.4g %s", bytes, unit);
  return text;
}

std::string parameters_text(const Plan& plan) {
  const std::string trained = count_text(double(plan.parameters));
  return plan.kept == 0 ? trained : join(trained, " of ", count_text(double(plan.parameters + plan.kept)));
}

std::string plan_text(const Plan& plan, const MemoryInfo& device) {
  std::string out = join(parameters_text(plan), " parameters, ", plan.tokens, " tokens a step\n");
  char line[160];
  for (MemoryUse use : kUses) {
    const UseStats& stats = plan.memory.of(use);
    std::snprintf(line, sizeof line, "  %-12s %12s   (at most %s)\n", std::string(name(use)).c_str(), bytes_text(double(stats.at_peak)).c_str(),
                  bytes_text(double(stats.high_water)).c_str());
    out += line;
  }
  std::snprintf(line, sizeof line, "  %-12s %12s   of %s\n", "at the peak", bytes_text(double(plan.memory.high_water)).c_str(), bytes_text(double(device.free)).c_str());
  return out + line + join("  one step     ", count_text(plan.step.flops), "FLOP\n");
}

void check_fits(const Plan& plan, const MemoryInfo& device) {
  if (plan.memory.high_water <= device.free) return;
  fail(ErrorCode::out_of_memory, "train", "this run needs ", bytes_text(double(plan.memory.high_water)), " at its peak, the device has ",
       bytes_text(double(device.free)), " free; ", shrink_advice(plan));
}

}  // namespace weft
