#include "weft/train/plan.h"

#include <algorithm>
#include <cstdio>

#include "weft/backends/counting/counting_device.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/device/launch_progress.h"
#include "weft/models/load.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/train/evaluate.h"
#include "weft/train/optimizer_choice.h"
#include "weft/train/phase.h"
#include "weft/train/progress.h"
#include "weft/train/run_tasks.h"
#include "weft/train/step.h"

namespace weft {
namespace {

constexpr MemoryUse kUses[] = {MemoryUse::weights, MemoryUse::gradients, MemoryUse::optimizer, MemoryUse::activations,
                               MemoryUse::workspace};

// Settings that would reduce it, among those that this run can still change.
std::string advice(MemoryUse most, const TrainConfig& c, int64_t micro_batches) {
  const bool bf16 = c.dtype == "bf16", adapters = c.lora_rank > 0;
  const std::string model = is_folder(c.model) ? "a smaller model" : "fewer --layers or a smaller --width";
  const std::string or_adapters = is_folder(c.model) && !adapters ? "--lora-rank 8, or " : "";
  switch (most) {
    case MemoryUse::activations:
      return join("mostly activations: try ", c.recompute ? "" : "--recompute, ", bf16 ? "" : "--dtype bf16, ",
                  "a smaller --micro-batch-tokens, ", c.data == "sums" ? "fewer --sums-rows" : "or a shorter --sequence");
    case MemoryUse::optimizer:
      return join("mostly the optimizer's state: try ", or_adapters,
                  c.optimizer == "adamw" ? "--optimizer lion"
                  : c.optimizer == "sgd" ? model
                                         : "--optimizer sgd");
    case MemoryUse::workspace: return "mostly the kernels' workspace: try fewer --threads or a shorter --sequence";
    case MemoryUse::weights:  // bf16 weights below adapters have no f32 master; trained ones do, which costs more than bf16 saves
      if (adapters != bf16)
        return join("mostly weights: try --dtype ", bf16 ? "f32, which needs no master copy of them, " : "bf16, ",
                    or_adapters.empty() ? std::string("or ") : or_adapters, model);
      [[fallthrough]];
    default:
      return join(
          "mostly weights and gradients: try ",
          most == MemoryUse::gradients && micro_batches > 1 ? "a larger --micro-batch-tokens, which needs fewer partial sums, " : "",
          or_adapters, model);
  }
}

std::string shrink_advice(const Plan& plan, const TrainConfig& config) {
  return advice(*std::max_element(std::begin(kUses), std::end(kUses),
                                  [&](MemoryUse a, MemoryUse b) { return plan.memory.of(a).at_peak < plan.memory.of(b).at_peak; }),
                config, plan.micro_batches);
}

// "12 GiB free", "3 GiB free within the container's limit"
std::string free_text(const MemoryInfo& device) {
  return join(bytes_text(double(device.free)), " free", device.limit.empty() ? "" : join(" within ", device.limit));
}

// The export at the end of the run.
void rehearse_export(const Model& model) {
  const Phase phase(model.device());
  for (const DeferredTensor& weight : exported_weights(model, model.dtype())) weight.make();
}

// Rank 0 has as many as any other.
int64_t most_micro_batches(int64_t all, int ranks, Sharding sharding) {
  return int64_t(share_of(all, 0, ranks, sharding).micro_batches.size());
}

// The rank that owns the most elements. Shares are uneven where parameters are not cut.
int fullest_rank(const TrainConfig& config, const TrainingProblem& problem, Device& device, int ranks) {
  if (sharding_from_name(config.shard) == Sharding::none) return 0;
  const std::vector<Parameter> parameters = make_planned_model(config, problem.model, device)->trainable_parameters();
  const ParameterShards shards(parameters, whole_parameters(config.optimizer, parameters), ranks);
  std::vector<int64_t> owned;
  for (int rank = 0; rank < ranks; ++rank) {
    int64_t& elements = owned.emplace_back();
    for (const Range& range : shards.of_rank(rank)) elements += range.count;
  }
  return int(std::max_element(owned.begin(), owned.end()) - owned.begin());
}

// FLOPs of the kernels whose work depends on the lengths of documents.
double attention_of(const counting::Counts& counts) {
  double flops = 0;
  for (const char* kernel : {CausalAttentionArgs::kOp, CausalAttentionBackwardArgs::kOp})
    if (const auto found = counts.kernels().find(kernel); found != counts.kernels().end()) flops += found->second.cost.flops;
  return flops;
}

// Kernels count all documents of a micro-batch as one: the share of that which rows of one document each have.
double rows_of_documents(const TokenBatch& sequence, int64_t sequences) {
  const double tokens = double(sequence.tokens), rows = double(sequences);
  return sequence.documents.empty() ? 1 : rows * causal_pairs(tokens) / causal_pairs(rows * tokens);
}

struct CountedWork {
  Cost all;
  double attention = 0;  // FLOPs, of those
};

// A short run on a device that has neither memory nor work behind it: some steps of sequences like `sequence`, an evaluation, samples,
// the export. Fills in the plan; the cost of a step only if `counts` counts it.
void rehearse(const TrainConfig& config, const TrainingProblem& problem, const TokenBatch& sequence, Device& device, Communicator& ranks,
              counting::Counts* counts, Plan& plan) {
  const auto model = make_planned_model(config, problem.model, device);
  const Sharding sharding = sharding_from_name(config.shard);
  const auto optimizer = make_optimizer(config, *model, ranks, sharding);
  const StepSize size = step_size(config, problem);
  const int64_t at_once = size.sequences_at_once();
  share_of(size, ranks, sharding);  // throws if they cannot share the step
  const int64_t micro_batches = most_micro_batches(size.micro_batches(), ranks.size(), sharding);
  StepOptions options = step_options(config);
  options.micro_batch_tokens = at_once * size.sequence_tokens;
  TrainingStep step(*model, *optimizer, options, ranks, sharding);
  step.set_additions(plan.additions);
  const auto count = [&](int64_t micro_batches) {
    const std::vector<TokenBatch> some(size_t(micro_batches * at_once), sequence);
    if (counts) counts->reset();
    step.gradients(some);
    step.apply(0);
    return counts ? CountedWork{counts->total(), attention_of(*counts)} : CountedWork{};
  };
  // All micro-batches are alike: two are counted, after a step that leaves the memory every later step finds.
  plan.tokens = size.batch * size.accumulate * size.sequence_tokens;
  plan.micro_batches = size.micro_batches();
  step.reserve(micro_batches);
  const int64_t counted = std::min<int64_t>(micro_batches, 2);
  count(counted);
  const CountedWork one = count(1), some = count(counted);
  if (counts) {
    const auto of_all = [&](double first, double two) { return first + (counted > 1 ? double(micro_batches - 1) * (two - first) : 0); };
    plan.step = {of_all(one.all.bytes, some.all.bytes), of_all(one.all.flops, some.all.flops)};
    const double attention = of_all(one.attention, some.attention);
    plan.other_flops = plan.step.flops - attention;
    plan.attention_flops = attention * rows_of_documents(sequence, at_once);
    plan.step.flops = plan.other_flops + plan.attention_flops * problem.data->packing().attention;
  }
  validation_loss(*model, *problem.data, 1);
  if (problem.sums) sums_accuracy(*model, *problem.sums);
  SampleOptions longest = sample_options(config, problem);
  longest.end_ids.clear();  // a planned device draws no tokens
  for (const auto& prompt : sample_prompts(config, problem)) sample_text(*model, *problem.vocabulary, prompt, longest);
  if (problem.tasks) problem.tasks->rehearse(*model);
  rehearse_export(*model);
  plan.memory = device.pool().stats();
  plan.additions = step.additions();
  plan.parameters = plan.kept = 0;
  for (const Parameter& p : model->all_parameters()) (p.tensor.requires_grad() ? plan.parameters : plan.kept) += p.tensor.numel();
}

}  // namespace

// The counting device counts the work of the whole step; the planned device of a rank takes the memory.
Plan make_plan(const TrainConfig& config, const TrainingProblem& problem, int ranks) {
  Plan plan;
  plan.ranks = ranks;
  plan.counted_share = problem.data->counted_share();
  const auto counting = counting::open_device(int(config.threads));
  const LaunchProgress launches(counting->stream());
  const TokenBatch sequence = problem.data->training_sequence(0);
  rehearse(config, problem, sequence, *counting, alone(), &counting::counts(*counting), plan);
  const auto target = open_planned(config.device, {.threads = int(config.threads)});
  if (ranks == 1) {
    if (target->name() != counting->name()) rehearse(config, problem, sequence, *target, alone(), nullptr, plan);
    return plan;
  }
  const auto all = planned_ranks(ranks, fullest_rank(config, problem, *counting, ranks));
  if (sharding_from_name(config.shard) == Sharding::gradients)  // with additions known, the first step too releases gradients
    rehearse(config, problem, sequence, *open_planned(config.device, {.threads = int(config.threads)}), *all, nullptr, plan);
  rehearse(config, problem, sequence, *target, *all, nullptr, plan);
  return plan;
}

double Plan::flops_of(std::span<const TokenBatch> sequences, double share_of_step) const {
  double attended = 0, whole = 0;
  for (const TokenBatch& each : sequences) {
    attended += each.attended_pairs();
    whole += double(each.rows) * causal_pairs(double(each.tokens));
  }
  return share_of_step * (other_flops + attention_flops * (whole > 0 ? attended / whole : 1));
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

std::string counted_text(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %% of the tokens", 100 * share);
  return text;
}

std::string plan_text(const Plan& plan, const MemoryInfo& device) {
  std::string out = join(parameters_text(plan), " parameters, ", plan.tokens, " tokens a step\n");
  if (plan.counted_share < 1) out += join("the loss counts ", counted_text(plan.counted_share), ": the answers\n");
  if (plan.ranks > 1) out += join("each of ", plan.ranks, " ranks needs\n");
  char line[160];
  for (MemoryUse use : kUses) {
    const UseStats& stats = plan.memory.of(use);
    std::snprintf(line, sizeof line, "  %-12s %12s   (at most %s)\n", std::string(name(use)).c_str(),
                  bytes_text(double(stats.at_peak)).c_str(), bytes_text(double(stats.high_water)).c_str());
    out += line;
  }
  std::snprintf(line, sizeof line, "  %-12s %12s   (%s in use, the rest cached for reuse)\n", "at the peak",
                bytes_text(double(plan.peak())).c_str(), bytes_text(double(std::min(plan.peak(), plan.memory.high_water))).c_str());
  return out + line + join("  of ", free_text(device), "\n") + join("  one step     ", count_text(plan.step.flops), "FLOP\n");
}

void check_fits(const Plan& plan, const TrainConfig& config, const MemoryInfo& device) {
  if (plan.peak() <= device.free) return;
  fail(ErrorCode::out_of_memory, "train", "this run needs ", bytes_text(double(plan.peak())), " at its peak, the device has ",
       free_text(device), "; ", shrink_advice(plan, config));
}

}  // namespace weft
