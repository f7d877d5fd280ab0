// A small model trained by one process or by several ranks, and everything whose bits must not depend on their number.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/model_cases.h"
#include "tests/unit/thread_ranks.h"
#include "weft/train/optimizers.h"
#include "weft/train/step.h"

namespace weft {

struct SharedSetting {
  const char* name;
  const char* model = "gpt2";
  const char* optimizer = "adamw";
  DType dtype = DType::f32;
  bool lora = false, recompute = false;
  float dropout = 0.2f;
  int64_t bucket_elements = 20000;  // several buckets and parcels
  double router_loss = 0;           // of a mixture of experts

  friend std::ostream& operator<<(std::ostream& out, const SharedSetting& s) { return out << s.name; }
};

// The bytes of a run.
struct TrainedBits {
  std::vector<std::vector<float>> weights;
  std::map<std::string, std::vector<float>> state;  // of the optimizer, whole tensors
  std::vector<uint32_t> random_state;
  std::vector<double> losses, norms;
};

class SharedTraining {
 public:
  static constexpr int64_t kTokens = 9, kRows = 2;  // of a sequence; sequences in a micro-batch

  SharedTraining(const SharedSetting& setting, Communicator& ranks, Sharding sharding)
      : ranks_(ranks), sharding_(sharding), device_(open_device("cpu", {.threads = 1})) {
    ModelConfig config;
    for (const ModelCase& each : model_cases())
      if (each.name == setting.model) config = each.config;
    config.vocab_size = 3001;  // the embeddings' 144048 elements are cut twice
    config.hidden_size = 48;
    config.head_dim = 12;
    config.embedding_dropout = config.attention_dropout = config.residual_dropout = setting.dropout;
    config.router_loss = setting.router_loss;
    ModelOptions options{.dtype = setting.dtype, .trainable = true};
    if (setting.lora) options.lora = LoraOptions{.rank = 3, .scale = 0.7, .targets = {"all-linear"}, .seed = 5, .dropout = 0.1};
    model_ = make_model(config, *device_, 3, options);
    optimizer_ = make(setting);
    step_ = std::make_unique<TrainingStep>(*model_, *optimizer_,
                                           StepOptions{.clip = 1,
                                                       .recompute = setting.recompute,
                                                       .seed = 11,
                                                       .micro_batch_tokens = kRows * kTokens,
                                                       .bucket_elements = setting.bucket_elements},
                                           ranks, sharding);
  }

  // One step of n micro-batches, whose sequences depend on `seed` alone.
  StepResult gradients(int64_t n, uint32_t seed) {
    const std::vector<TokenBatch> all = sequences(n, seed);
    std::vector<TokenBatch> own;
    for (int64_t i : share_of(n, ranks_, sharding_).micro_batches)
      for (int64_t row = 0; row < kRows; ++row) own.push_back(all[size_t(i * kRows + row)]);
    return step_->gradients(own);
  }
  void train(const std::vector<int64_t>& micro_batches) {
    for (int64_t n : micro_batches) {
      const StepResult result = gradients(n, uint32_t(bits_.losses.size()));
      bits_.losses.push_back(result.loss);
      bits_.norms.push_back(result.gradient_norm);
      step_->apply(1e-2);
    }
  }
  // The state of this rank's ranges is written into `whole`, one rank after the other.
  TrainedBits bits(std::map<std::string, std::vector<float>>& whole) const {
    const NoGrad no_grad;
    TrainedBits all = bits_;
    for (const Parameter& p : optimizer_->parameters()) all.weights.push_back(cast(p.tensor.detach(), DType::f32).to_host<float>());
    all.random_state = step_->random_state().to_host<uint32_t>();
    for (const Optimizer::StatePart& part : optimizer_->state_parts()) {
      std::vector<float>& values = whole[part.name];
      values.resize(size_t(optimizer_->parameters()[part.parameter].tensor.numel()));
      if (!part.tensor) continue;
      const std::vector<float> own = part.tensor.to_host<float>();
      std::copy(own.begin(), own.end(), values.begin() + part.range.first);
    }
    return all;
  }

  Device& device() { return *device_; }
  TrainingStep& step() { return *step_; }
  const Optimizer& optimizer() const { return *optimizer_; }

  static std::vector<TokenBatch> sequences(int64_t micro_batches, uint32_t seed) {
    std::mt19937 random(seed * 31 + uint32_t(micro_batches));
    std::vector<TokenBatch> all;
    for (int64_t i = 0; i < micro_batches * kRows; ++i) {
      TokenBatch& sequence = all.emplace_back(TokenBatch{.rows = 1, .tokens = kTokens, .ids = {}, .targets = {}});
      for (int64_t t = 0; t < kTokens; ++t) {
        sequence.ids.push_back(int32_t(random() % 3001));
        sequence.targets.push_back(random() % 8 == 0 ? kIgnored : int32_t(random() % 3001));
      }
    }
    return all;
  }

 private:
  std::unique_ptr<Optimizer> make(const SharedSetting& setting) const {
    const std::vector<Parameter> parameters = model_->trainable_parameters();
    const std::string name = setting.optimizer;
    std::vector<Range> owned;
    if (ranks_.size() > 1 && sharding_ != Sharding::none)
      owned = ParameterShards(parameters, name == "muon" ? Muon::whole_of(parameters) : std::vector<bool>(), ranks_.size(),
                              setting.bucket_elements)
                  .of_rank(ranks_.rank());
    if (name == "muon") return std::make_unique<Muon>(parameters, MuonOptions{}, owned);
    if (name == "lion") return std::make_unique<Lion>(parameters, LionOptions{}, owned);
    if (name == "sgd") return std::make_unique<SGD>(parameters, SGDOptions{.nesterov = true}, owned);
    return std::make_unique<AdamW>(parameters, AdamWOptions{}, owned);
  }

  Communicator& ranks_;
  Sharding sharding_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<TrainingStep> step_;
  TrainedBits bits_;
};

// The bits after some steps, of each rank. `seed`: of random delays; 0: none.
inline std::vector<TrainedBits> trained_by(int ranks, Sharding sharding, const SharedSetting& setting,
                                           const std::vector<int64_t>& micro_batches, uint32_t seed = 0) {
  std::vector<TrainedBits> all(static_cast<size_t>(ranks));
  std::map<std::string, std::vector<float>> state;
  std::mutex mutex;
  const auto work = [&](Communicator& self) {
    SharedTraining training(setting, self, sharding);
    training.train(micro_batches);
    const std::lock_guard lock(mutex);
    all[size_t(self.rank())] = training.bits(state);
  };
  ranks == 1 ? work(alone()) : ThreadRanks(ranks, seed).run(work);
  for (TrainedBits& each : all) each.state = state;
  return all;
}

}  // namespace weft
