// Runs that start from a folder: all weights, or adapters only.
#include <gtest/gtest.h>

#include "tests/unit/golden_model.h"
#include "tests/unit/training_run.h"
#include "weft/models/config_json.h"
#include "weft/train/capture.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class Finetune : public TrainingRun {
 protected:
  TrainConfig config(const std::string& out, const std::string& model, int64_t rank) const {
    TrainConfig c = config_in(out);
    c.model = golden::folder(model);
    c.lora_rank = rank;
    c.sequence = 16;
    c.steps = 6;
    c.batch = 2;
    c.warmup = 1;
    c.learning_rate = 3e-3;
    c.save_every = 2;
    c.evaluate_every = 0;
    c.sample_tokens = 4;
    return c;
  }
  std::string adapter(const std::string& out) const { return contents(folder / out / "adapter/adapter_model.safetensors"); }
};

TEST_F(Finetune, adapters_are_trained_and_the_base_is_frozen) {
  for (const char* model : {"llama", "qwen3", "gpt2"}) {
    TrainConfig c = config(model, model, 4);
    c.steps = 1;
    c.learning_rate = 1e-12;
    const double before = train(c).evaluation->validation_loss;
    c = config(std::string(model) + "_long", model, 4);
    c.steps = 30;
    c.dropout = 0;
    EXPECT_LT(train(c).evaluation->validation_loss, before - 0.1) << model;
    const SafeTensors base(c.model + "/model.safetensors"), merged(c.out + "/model/model.safetensors");
    int changed = 0;
    for (const auto& [name, entry] : base.entries()) {
      const bool same = std::equal(entry.bytes.begin(), entry.bytes.end(), merged.at(name).bytes.begin(), merged.at(name).bytes.end());
      const bool target = name.find("q_proj") != name.npos || name.find("v_proj") != name.npos || name.find("c_attn.weight") != name.npos;
      EXPECT_EQ(same, !target) << name;
      changed += !same;
    }
    EXPECT_GT(changed, 0);
    const Checkpoint checkpoint(c.out + "/checkpoints/checkpoint-0000000030.safetensors");
    for (const auto& [name, entry] : checkpoint.file().entries())
      EXPECT_TRUE(name == "random_state" || name.find(".lora_") != name.npos) << name;  // no state for frozen weights
    EXPECT_EQ(contents(folder / c.out / "model/tokenizer.json"), contents(c.model + "/tokenizer.json"));
  }
}

// Also with the default packing, whose choice is rehearsed.
TEST_F(Finetune, targets_may_be_in_one_block_alone) {
  TrainConfig c = config("one", "llama", 2);
  c.lora_targets = "layers.1.mlp.down_proj", c.steps = 1;
  train(c);
  const SafeTensors file(c.out + "/adapter/adapter_model.safetensors");
  EXPECT_EQ(file.entries().size(), 2u);
  EXPECT_TRUE(file.contains("base_model.model.model.layers.1.mlp.down_proj.lora_A.weight"));
}

// The adapter on its base equals the run's model, and its export equals the model that the run wrote.
TEST_F(Finetune, exported_adapter_equals_the_run) {
  const TrainConfig c = config("a", "gpt2", 4);
  Trainer trainer(c, {.out = quiet});
  trainer.run();
  Device& device = trainer.model().device();
  const auto back = load_model(c.model, device, {}, c.out + "/adapter");
  const Tensor ids = Tensor::from_host(device, {1, 4}, std::vector<int32_t>{1, 2, 3, 4});
  EXPECT_EQ(back->logits(ids).to_host<float>(), trainer.model().logits(ids).to_host<float>());
  export_model(*back, (folder / "again").string());
  EXPECT_EQ(contents(folder / "again/model.safetensors"), weights("a"));
}

TEST_F(Finetune, resumed_run_is_bitwise_equal) {
  for (const char* dtype : {"f32", "bf16"})
    for (int64_t rank : {0, 4}) {
      const std::string name = join(dtype, rank);
      TrainConfig c = config(name + "_whole", "gpt2", rank);
      c.dtype = dtype;
      if (rank) c.lora_targets = "c_attn,mlp.c_proj", c.lora_dropout = 0.2;
      c.threads = 2;
      train(c);
      c.out = (folder / (name + "_parts")).string();
      c.threads = 1;
      c.recompute = false;
      for (int part = 0; part < 2; ++part) EXPECT_FALSE(train_steps(c, 1, part > 0).finished);
      EXPECT_TRUE(train(c, true).finished);
      EXPECT_EQ(weights(name + "_whole"), weights(name + "_parts")) << name;
      if (rank) {
        EXPECT_EQ(adapter(name + "_whole"), adapter(name + "_parts")) << name;
      }
    }
}

TEST_F(Finetune, resuming_on_another_base_is_an_error) {
  fs::copy(golden::folder("llama"), folder / "base");
  TrainConfig c = config("a", "llama", 4);
  c.model = (folder / "base").string();
  train_steps(c, 1);
  const auto device = open_device(test_device());
  export_model(*make_model(read_model_config(c.model), *device, 1), (folder / "other").string());
  fs::copy_file(folder / "other/model.safetensors", folder / "base/model.safetensors", fs::copy_options::overwrite_existing);
  EXPECT_THROW(train(c, true), Error);
}

TEST_F(Finetune, memory_plan_includes_adapters) {
  for (const char* dtype : {"f32", "bf16"})
    for (bool recompute : {false, true}) {
      TrainConfig c = config(join(dtype, recompute), "llama", 4);
      c.dtype = dtype;
      c.recompute = recompute;
      c.sample_tokens = 0;
      Trainer trainer(c, {.out = quiet});
      trainer.run();
      const PoolStats stats = trainer.model().device().pool().stats();
      for (MemoryUse use : {MemoryUse::weights, MemoryUse::gradients, MemoryUse::optimizer, MemoryUse::activations, MemoryUse::workspace})
        EXPECT_NEAR(double(stats.of(use).high_water), double(trainer.plan().memory.of(use).high_water),
                    0.02 * double(stats.of(use).high_water))
            << name(use);
      EXPECT_GT(trainer.plan().kept, 10 * trainer.plan().parameters);
      EXPECT_LT(stats.of(MemoryUse::optimizer).high_water, stats.of(MemoryUse::weights).high_water / 4);
    }
}

// GPT-2's dropout acts on training steps only, not on evaluations.
TEST_F(Finetune, dropout_applies_to_training_only) {
  TrainConfig c = config("without", "gpt2", 0), d = config("with", "gpt2", 0);
  c.steps = d.steps = 1;
  c.learning_rate = d.learning_rate = 1e-30;  // the weights stay the same
  c.dropout = 0;
  d.dropout = 0.3;
  const TrainOutcome without = train(c), with = train(d);
  EXPECT_NE(without.loss, with.loss);
  EXPECT_EQ(without.evaluation->validation_loss, with.evaluation->validation_loss);
}

TEST_F(Finetune, adapter_dropout_applies_to_training_only) {
  for (const char* model : {"llama", "gpt2"}) {
    const auto trained = [&](double dropout, bool recompute) {
      TrainConfig c = config(join(model, dropout, recompute), model, 4);
      c.dropout = 0;
      c.lora_targets = "all-linear";
      c.lora_dropout = dropout;
      c.recompute = recompute;
      Trainer trainer(c, {.out = quiet});
      trainer.run();
      Device& device = trainer.model().device();
      const Tensor ids = Tensor::from_host(device, {1, 4}, std::vector<int32_t>{1, 2, 3, 4});
      EXPECT_EQ(load_model(c.model, device, {}, c.out + "/adapter")->logits(ids).to_host<float>(),
                trainer.model().logits(ids).to_host<float>());
      EXPECT_NE(contents(fs::path(c.out) / "adapter/adapter_config.json").find(join("\"lora_dropout\": ", dropout)), std::string::npos);
      return adapter(join(model, dropout, recompute));
    };
    const std::string dropped = trained(0.25, false);
    EXPECT_NE(trained(0, false), dropped) << model;
    EXPECT_EQ(trained(0.25, true), dropped) << model;
  }
}

TEST_F(Finetune, step_with_nan_is_captured_and_replayed) {
  TrainConfig c = config("bad", "llama", 4);
  c.optimizer = "sgd";
  c.learning_rate = 1e30;
  c.clip = 0;
  EXPECT_THROW(train(c), Error);
  std::string capture;
  for (const auto& entry : fs::directory_iterator(c.out))
    if (entry.path().filename().string().starts_with("capture-")) capture = entry.path().string();
  ASSERT_FALSE(capture.empty());
  const Replay replay = replay_capture(capture, test_device(), 1);
  EXPECT_FALSE(replay.result.finite());
  EXPECT_TRUE(replay.bad.has_value());
}

// Files that the export needs are read before the first step.
TEST_F(Finetune, unreadable_files_of_the_base_end_the_run_at_once) {
  const std::string base = (folder / "base").string();
  fs::copy(golden::folder("llama"), base);
  TrainConfig c = config("a", "llama", 0);
  c.model = base;
  const auto error_of = [&] {
    try {
      train(c);
    } catch (const Error& error) {
      EXPECT_FALSE(fs::exists(fs::path(c.out) / "model"));
      EXPECT_FALSE(fs::exists(fs::path(c.out) / "metrics.jsonl"));
      return std::string(error.what());
    }
    return std::string("no error");
  };
  std::ofstream(base + "/generation_config.json") << R"({"top_p": 7})";
  EXPECT_NE(error_of().find("generation_config.json: $.top_p is 7"), std::string::npos) << error_of();
  fs::copy(golden::folder("llama") + "/generation_config.json", base, fs::copy_options::overwrite_existing);
  std::ofstream(base + "/merges.txt") << "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
  EXPECT_NE(error_of().find("merges.txt"), std::string::npos) << error_of();
  fs::remove(base + "/merges.txt");
  EXPECT_EQ(error_of(), "no error");
}

TEST_F(Finetune, errors_for_unsupported_adapters) {
  TrainConfig c = config("a", "llama", 4);
  c.model = "llama-tiny";
  EXPECT_THROW(train(c), Error);  // new weights
  c = config("a", "llama", 4);
  c.lora_targets = "q_proj,,v_proj";
  EXPECT_THROW(train(c), Error);
  c.lora_targets = "c_attn";
  EXPECT_THROW(train(c), Error);  // no such layer
  c = config("a", "llama", 4);
  c.lora_alpha = 0;
  EXPECT_THROW(train(c), Error);
  c = config("a", "llama", 4);
  c.lora_dropout = 1;
  EXPECT_THROW(train(c), Error);
  c = config("a", "llama", 4);
  train(c);
  c.lora_rank = 8;
  EXPECT_THROW(train(c, true), Error);  // another rank than the run's
}

}  // namespace
}  // namespace weft
