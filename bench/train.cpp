#include "bench/train.h"

#include "bench/between.h"
#include "weft/backends/counting/counting_device.h"
#include "weft/train/setup.h"
#include "weft/train/step.h"

namespace weft::bench {
namespace {

constexpr int kProfiled = 3;  // steps

std::vector<TokenBatch> some_sequences(const TrainShape& shape) {
  std::vector<TokenBatch> sequences(size_t(shape.sequences), TokenBatch{.rows = 1, .tokens = shape.tokens, .ids = {}, .targets = {}});
  uint32_t state = 1;
  for (TokenBatch& sequence : sequences)
    for (int64_t t = 0; t <= shape.tokens; ++t) {
      state = state * 1664525u + 1013904223u;
      const int32_t id = int32_t(int64_t(state >> 8) % shape.model.vocab_size);
      if (t < shape.tokens) sequence.ids.push_back(id);
      if (t > 0) sequence.targets.push_back(id);
    }
  return sequences;
}

// The model that `weft train` makes of its config.
class Training {
 public:
  Training(const TrainShape& shape, Device& device, bool planned)
      : config_(config_of(shape)),
        model_(planned ? make_planned_model(config_, shape.model, device) : make_training_model(config_, shape.model, device)),
        optimizer_(make_optimizer(config_, *model_)),
        step_(*model_, *optimizer_, {.clip = config_.clip, .micro_batch_tokens = shape.pass_tokens}),
        sequences_(some_sequences(shape)) {}

  void step() {
    step_.gradients(sequences_);
    step_.apply(1e-3);
    model_->device().synchronize();
  }

 private:
  static TrainConfig config_of(const TrainShape& shape) {
    TrainConfig config;
    config.dtype = std::string(name(shape.dtype));
    return config;
  }

  TrainConfig config_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  TrainingStep step_;
  std::vector<TokenBatch> sequences_;
};

// The costs of a step by op.
OpCosts count_step(const TrainShape& shape, int threads) {
  const auto device = counting::open_device(threads);
  Training training(shape, *device, true);
  counting::counts(*device).reset();
  training.step();
  return counting::counts(*device).kernels();
}

double flops_of_products_and_attention(const OpCosts& costs) {
  double flops = 0;
  for (const auto& [op, count] : costs)
    if (op == "matmul" || op.starts_with("causal_attention")) flops += count.cost.flops;
  return flops;
}

}  // namespace

TrainResult measure_training(const TrainShape& shape, Device& device, Ceilings& ceilings, int threads) {
  const bool dot = shape.dtype == DType::bf16 && ceilings.measure(Ceiling::bf16_dot, 0) > 0;
  const Ceiling ceiling = dot ? Ceiling::bf16_dot : Ceiling::fma;
  TrainResult result{.dtype = std::string(name(shape.dtype)),
                     .ceiling = std::string(name(ceiling)),
                     .tokens = shape.sequences * shape.tokens,
                     .breakdown = {}};
  const OpCosts costs = count_step(shape, threads);
  result.flops = flops_of_products_and_attention(costs);
  Training training(shape, device, false);
  measure_between(
      result, [&] { return result.flops / ceilings.measure(ceiling, 0); }, [&] { return median_time([&] { training.step(); }, 1.0); });
  result.disturbed |= result.ratio > 1;  // no step exceeds the peak: other processes disturbed the measurements
  result.peak = result.flops / result.seconds / result.ratio;
  result.breakdown = break_down(device, kProfiled, costs, [&] { training.step(); });
  return result;
}

}  // namespace weft::bench
