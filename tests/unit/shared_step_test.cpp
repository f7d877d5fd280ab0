// The bits of a run do not depend on the number of ranks that share its steps: weights, the optimizer's state, losses, norms.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/unit/shared_training.h"
#include "weft/backends/counting/counting_device.h"
#include "weft/train/setup.h"

namespace weft {
namespace {

bool same_bytes(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void expect_same(const TrainedBits& is, const TrainedBits& expected, const std::string& what) {
  ASSERT_EQ(is.weights.size(), expected.weights.size());
  EXPECT_EQ(is.losses, expected.losses) << what;
  EXPECT_EQ(is.norms, expected.norms) << what;
  EXPECT_EQ(is.random_state, expected.random_state) << what;
  size_t other = 0;
  for (size_t i = 0; i < is.weights.size(); ++i) other += !same_bytes(is.weights[i], expected.weights[i]);
  EXPECT_EQ(other, 0u) << what << ": tensors of weights";
  ASSERT_EQ(is.state.size(), expected.state.size()) << what;
  for (const auto& [name, values] : expected.state) EXPECT_TRUE(same_bytes(is.state.at(name), values)) << what << ": " << name;
}

struct Ranks {
  int size;
  Sharding sharding;
  std::vector<int64_t> micro_batches;  // of each step
};

class SharedStep : public testing::TestWithParam<SharedSetting> {};

TEST_P(SharedStep, has_the_bits_of_one_process) {
  std::map<std::vector<int64_t>, TrainedBits> references;
  uint32_t seed = 0;
  for (const Ranks& ranks :
       {Ranks{2, Sharding::optimizer, {8, 8, 8}}, Ranks{4, Sharding::optimizer, {8, 8, 8}}, Ranks{8, Sharding::optimizer, {8, 8, 8}},
        Ranks{3, Sharding::optimizer, {6, 3, 5}}, Ranks{2, Sharding::none, {8, 8, 8}}, Ranks{3, Sharding::none, {6, 3, 5}},
        Ranks{2, Sharding::gradients, {8, 8, 8}}, Ranks{4, Sharding::gradients, {8, 8, 8}}, Ranks{2, Sharding::gradients, {6, 3, 5}},
        Ranks{8, Sharding::gradients, {8, 8, 8}}}) {
    if (!references.contains(ranks.micro_batches))
      references[ranks.micro_batches] = trained_by(1, Sharding::optimizer, GetParam(), ranks.micro_batches)[0];
    const TrainedBits& expected = references[ranks.micro_batches];
    for (const TrainedBits& is : trained_by(ranks.size, ranks.sharding, GetParam(), ranks.micro_batches, ++seed))
      expect_same(is, expected, join(ranks.size, " ranks, --shard ", name(ranks.sharding)));
  }
}

INSTANTIATE_TEST_SUITE_P(
    settings, SharedStep,
    testing::Values(SharedSetting{.name = "adamw_f32"},
                    SharedSetting{.name = "adamw_bf16_recomputed", .dtype = DType::bf16, .recompute = true},
                    SharedSetting{.name = "muon_bf16", .optimizer = "muon", .dtype = DType::bf16},
                    SharedSetting{.name = "muon_f32_recomputed", .model = "llama_untied", .optimizer = "muon", .recompute = true},
                    SharedSetting{.name = "lion_bf16", .model = "llama_tied_one_key_head", .optimizer = "lion", .dtype = DType::bf16},
                    SharedSetting{.name = "lion_f32_one_bucket", .model = "qwen3", .optimizer = "lion", .bucket_elements = 1 << 20},
                    SharedSetting{.name = "sgd_f32_lora", .model = "qwen3", .optimizer = "sgd", .lora = true},
                    SharedSetting{.name = "sgd_bf16_tiny_buckets",
                                  .model = "gpt2_untied_narrow",
                                  .optimizer = "sgd",
                                  .dtype = DType::bf16,
                                  .bucket_elements = 6000},
                    SharedSetting{.name = "adamw_bf16_lora", .dtype = DType::bf16, .lora = true, .dropout = 0},
                    SharedSetting{.name = "adamw_f32_mixture", .model = "qwen3_moe", .router_loss = 0.5},
                    SharedSetting{.name = "muon_bf16_mixture_recomputed",
                                  .model = "mixtral",
                                  .optimizer = "muon",
                                  .dtype = DType::bf16,
                                  .recompute = true,
                                  .router_loss = 0.5},
                    SharedSetting{.name = "muon_f32_lora_recomputed",
                                  .model = "llama_untied",
                                  .optimizer = "muon",
                                  .lora = true,
                                  .recompute = true,
                                  .bucket_elements = 300}),
    [](const auto& info) { return std::string(info.param.name); });

// Ranks that come late change nothing.
TEST(SharedStepDelays, change_no_bits) {
  const SharedSetting setting{.name = "", .bucket_elements = 5000};
  const TrainedBits expected = trained_by(1, Sharding::optimizer, setting, {4, 4, 4})[0];
  for (uint32_t seed = 100; seed < 106; ++seed)
    for (const TrainedBits& is : trained_by(4, seed % 2 ? Sharding::gradients : Sharding::optimizer, setting, {4, 4, 4}, seed))
      expect_same(is, expected, join("seed ", seed));
}

// A defect that the tests above must notice: ranks added in another order, here because two of them swapped their micro-batches.
TEST(SharedStepOrder, of_ranks_shows_in_the_bits) {
  const SharedSetting setting{.name = "", .dropout = 0};
  const std::vector<TokenBatch> all = SharedTraining::sequences(4, 0);
  const auto gradients = [&](const std::vector<size_t>& order) {
    std::vector<std::vector<float>> sums(4);
    ThreadRanks(4, 0).run([&](Communicator& self) {
      SharedTraining training(setting, self, Sharding::none);
      const size_t first = order[size_t(self.rank())] * 2;
      training.step().gradients(std::span(all).subspan(first, 2));
      for (const Parameter& p : training.optimizer().parameters()) {
        const std::vector<float> grad = p.tensor.grad().to_host<float>();
        sums[size_t(self.rank())].insert(sums[size_t(self.rank())].end(), grad.begin(), grad.end());
      }
    });
    for (size_t rank = 1; rank < 4; ++rank) EXPECT_TRUE(same_bytes(sums[rank], sums[0])) << "rank " << rank;
    return sums[0];
  };
  const std::vector<float> in_order = gradients({0, 1, 2, 3});
  EXPECT_TRUE(same_bytes(in_order, gradients({1, 0, 3, 2})));   // a + b is b + a
  EXPECT_FALSE(same_bytes(in_order, gradients({0, 2, 1, 3})));  // (a + c) + (b + d) is not (a + b) + (c + d)
}

TEST(SharedStepResult, is_of_the_whole_step) {
  const SharedSetting setting{.name = ""};
  SharedTraining one(setting, alone(), Sharding::optimizer);
  const StepResult expected = one.gradients(4, 7);
  ThreadRanks(2, 1).run([&](Communicator& self) {
    SharedTraining training(setting, self, Sharding::optimizer);
    const StepResult result = training.gradients(4, 7);
    EXPECT_EQ(result.tokens, expected.tokens);
    EXPECT_EQ(result.targets, expected.targets);
    EXPECT_EQ(result.loss, expected.loss);
    EXPECT_FALSE(result.stop);
    EXPECT_EQ(result.seconds_waited.size(), 2u);
    const std::vector<TokenBatch> own = SharedTraining::sequences(2, 1);
    EXPECT_TRUE(training.step().gradients(own, {}, self.rank() == 1).stop);  // one rank's wish is heard by all
    EXPECT_TRUE(training.step().gradients({}, {}, self.rank() == 0).stop);
  });
}

// All ranks end with the same message.
TEST(SharedStepErrors, are_those_of_all_ranks) {
  const SharedSetting setting{.name = ""};
  const auto message = [&](int ranks, Sharding sharding, const std::vector<int64_t>& sequences_by_rank, bool targets = true) {
    std::vector<std::string> errors(static_cast<size_t>(ranks));
    ThreadRanks(ranks, 0).run([&](Communicator& self) {
      SharedTraining training(setting, self, sharding);
      std::vector<TokenBatch> own = SharedTraining::sequences(20, 1);
      own.resize(size_t(sequences_by_rank[size_t(self.rank())]));
      for (TokenBatch& each : own)
        if (!targets) std::fill(each.targets.begin(), each.targets.end(), kIgnored);
      try {
        training.step().gradients(own);
      } catch (const Error& error) {
        errors[size_t(self.rank())] = error.what();
      }
    });
    for (const std::string& each : errors) EXPECT_EQ(each, errors[0]);
    return errors[0];
  };
  EXPECT_EQ(message(3, Sharding::optimizer, {6, 6, 4}).find("train: 8 micro-batches cannot be shared by 3 ranks"), 0u);
  EXPECT_EQ(message(2, Sharding::optimizer, {6, 2}), "train: rank 0 on this process has 6 of the step's 8 sequences, expected 4");
  EXPECT_EQ(message(2, Sharding::optimizer, {8, 0}), "train: rank 0 on this process has 8 of the step's 8 sequences, expected 4");
  EXPECT_EQ(message(2, Sharding::gradients, {2, 0}).find("train: 1 micro-batch cannot be shared by 2 ranks"), 0u);
  EXPECT_EQ(message(2, Sharding::optimizer, {4, 4}, false), "train: the step has no target that counts");
  EXPECT_EQ(message(2, Sharding::none, {0, 0}), "train: the step has no sequences");
}

TEST(SharedStepErrors, an_optimizer_that_owns_other_ranges) {
  const auto device = open_device("cpu", {.threads = 1});
  const auto model = make_model(model_cases()[0].config, *device, 3, {.trainable = true});
  AdamW optimizer(model->trainable_parameters());
  const auto ranks = planned_ranks(2);
  EXPECT_THROW(TrainingStep(*model, optimizer, {}, *ranks), Error);
  EXPECT_NO_THROW(TrainingStep(*model, optimizer, {}, *ranks, Sharding::none));
}

// Numbers of additions that are too large make buckets leave at the end; too small ones would let gradients leave that are not final.
TEST(SharedStepAdditions, are_checked) {
  const SharedSetting setting{.name = ""};  // tied embeddings: several additions
  const auto train = [&](int additions) {
    double norm = 0;
    ThreadRanks(2, 3).run([&](Communicator& self) {
      SharedTraining training(setting, self, Sharding::optimizer);
      training.step().set_additions(std::vector<int>(training.optimizer().parameters().size(), additions));
      const StepResult result = training.gradients(4, 1);
      if (self.first()) norm = result.gradient_norm;
    });
    return norm;
  };
  EXPECT_EQ(train(100), train(0x7fff));
  try {
    train(1);
    FAIL() << "an addition after a gradient has left was not noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("part of it has left already"), std::string::npos) << error.what();
  }
  ThreadRanks(2, 0).run([&](Communicator& self) {
    SharedTraining training(setting, self, Sharding::optimizer);
    EXPECT_THROW(training.step().set_additions({1, 2}), Error);
    EXPECT_TRUE(training.step().additions().empty());
    training.gradients(4, 1);
    EXPECT_EQ(training.step().additions().size(), training.optimizer().parameters().size());
  });
}

// A rank's memory in bytes, of a GPT-2 that is planned for so many ranks.
PoolStats planned(int ranks, Sharding sharding, const std::string& optimizer, bool first_step = false) {
  const auto device = counting::open_device(1);
  TrainConfig config;
  config.optimizer = optimizer;
  config.dtype = "bf16";
  const ModelConfig shape = preset("gpt2-124m");
  const auto all = ranks == 1 ? nullptr : planned_ranks(ranks);
  Communicator& communicator = all ? *all : alone();
  const std::unique_ptr<Model> model = make_planned_model(config, shape, *device);
  const auto made = make_optimizer(config, *model, communicator, sharding);
  TrainingStep step(*model, *made, {.micro_batch_tokens = 32}, communicator, sharding);
  const std::vector<TokenBatch> sequences(
      1, TokenBatch{.rows = 1, .tokens = 32, .ids = std::vector<int32_t>(32), .targets = std::vector<int32_t>(32)});
  step.gradients(sequences);  // counts additions
  step.apply(0);
  device->pool().reset_high_water();
  std::unique_ptr<TrainingStep> other;
  if (first_step) {  // which is told their numbers
    other = std::make_unique<TrainingStep>(*model, *made, StepOptions{.micro_batch_tokens = 32}, communicator, sharding);
    other->set_additions(step.additions());
  }
  (other ? *other : step).gradients(sequences);
  (other ? *other : step).apply(0);
  return device->pool().stats();
}

TEST(SharedStepMemory, is_divided_by_the_ranks) {
  for (const char* optimizer : {"adamw", "muon"}) {
    const PoolStats one = planned(1, Sharding::optimizer, optimizer);
    const double state = double(one.of(MemoryUse::optimizer).in_use), gradients = double(one.of(MemoryUse::gradients).high_water);
    for (int ranks : {2, 4, 8}) {
      const PoolStats shared = planned(ranks, Sharding::optimizer, optimizer), two = planned(ranks, Sharding::gradients, optimizer);
      EXPECT_NEAR(double(shared.of(MemoryUse::optimizer).in_use), state / ranks, 0.15 * state / ranks) << optimizer << ", " << ranks;
      EXPECT_NEAR(double(two.of(MemoryUse::optimizer).in_use), state / ranks, 0.15 * state / ranks) << optimizer << ", " << ranks;
      EXPECT_LE(double(shared.of(MemoryUse::gradients).high_water), gradients + (17 << 20));
      // Besides a shard of the sums, the largest gradient, of the embeddings, and what is under way.
      EXPECT_LE(double(two.of(MemoryUse::gradients).in_use), gradients / ranks * 1.15);
      EXPECT_LE(double(two.of(MemoryUse::gradients).high_water), gradients * (1.15 / ranks + 0.45)) << optimizer << ", " << ranks;
    }
    const double shard = gradients / 4 * 1.15;  // of the step whose additions were counted
    EXPECT_LE(double(planned(4, Sharding::gradients, optimizer, true).of(MemoryUse::gradients).high_water), 2 * shard + 0.45 * gradients);
    EXPECT_EQ(planned(4, Sharding::none, optimizer).of(MemoryUse::optimizer).in_use, one.of(MemoryUse::optimizer).in_use);
  }
}

}  // namespace
}  // namespace weft
