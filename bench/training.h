// A model, its optimizer and the step that `weft train` makes of its config, with random sequences.
#pragma once

#include <memory>
#include <vector>

#include "bench/train.h"
#include "weft/train/setup.h"
#include "weft/train/step.h"

namespace weft::bench {

class Training {
 public:
  Training(const TrainShape& shape, Device& device, bool planned, Communicator& ranks = alone(), Sharding sharding = Sharding::optimizer)
      : config_(config_of(shape)),
        model_(planned ? make_planned_model(config_, shape.model, device) : make_training_model(config_, shape.model, device)),
        optimizer_(make_optimizer(config_, *model_, ranks, sharding)),
        step_(*model_, *optimizer_, {.clip = config_.clip, .micro_batch_tokens = shape.pass_tokens}, ranks, sharding),
        sequences_(some_sequences(shape)) {
    if (ranks.size() > 1) keep_share(shape, ranks, sharding);
  }

  StepResult step() {
    StepResult result = step_.gradients(sequences_);
    step_.apply(1e-3);
    model_->device().synchronize();
    return result;
  }

 private:
  static TrainConfig config_of(const TrainShape& shape) {
    TrainConfig config;
    config.dtype = std::string(name(shape.dtype));
    return config;
  }
  static std::vector<TokenBatch> some_sequences(const TrainShape& shape) {
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
  void keep_share(const TrainShape& shape, const Communicator& ranks, Sharding sharding) {
    const StepSize size{.batch = shape.sequences, .sequence_tokens = shape.tokens, .pass_tokens = shape.pass_tokens};
    std::vector<TokenBatch> own;
    for (int64_t index : share_of(size, ranks, sharding).micro_batches)
      for (int64_t i = 0; i < size.sequences_at_once(); ++i) own.push_back(sequences_[size_t(index * size.sequences_at_once() + i)]);
    sequences_ = std::move(own);
  }

  TrainConfig config_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  TrainingStep step_;
  std::vector<TokenBatch> sequences_;
};

}  // namespace weft::bench
