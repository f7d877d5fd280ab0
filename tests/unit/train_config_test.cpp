#include "weft/train/config.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "weft/base/error.h"
#include "weft/train/setup.h"

namespace weft {
namespace {

std::string message_of(const std::string& toml) {
  TrainConfig config;
  try {
    parse_config(toml, "run.toml", config);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(train_config, file_changes_the_settings_it_names) {
  TrainConfig config;
  parse_config("steps = 7\nlearning_rate = 2e-4  # a comment\nclip = 1\nnesterov = true\nmodel = \"gpt2-124m\"\n", "run.toml", config);
  EXPECT_EQ(config.steps, 7);
  EXPECT_EQ(config.learning_rate, 2e-4);
  EXPECT_EQ(config.clip, 1.0);
  EXPECT_TRUE(config.nesterov);
  EXPECT_EQ(config.model, "gpt2-124m");
  EXPECT_EQ(config.batch, TrainConfig{}.batch);
}

TEST(train_config, round_trip) {
  TrainConfig config;
  config.prompt = "a \"quoted\" \\ line\n, a bell \a, an escape \x1b and a \x7f";
  config.learning_rate = 0.1 + 0.2;
  config.eps = 1e-30;
  config.clip = 3;
  config.seed = 1234567890123456789;
  config.decay_all = true;
  TrainConfig back;
  parse_config(to_toml(config), "config.toml", back);
  EXPECT_EQ(back, config);
}

// Attention scores of a smaller model have the scale of its own heads: Gemma's is head_dim^-1/2, Granite's a multiple of 1 / head_dim.
TEST(train_config, attention_scale_follows_the_head_size) {
  const auto scale = [](const char* model, int64_t width, int64_t heads) {
    TrainConfig config;
    config.model = model;
    config.width = width;
    config.heads = heads;
    const ModelConfig made = model_config(config);
    EXPECT_EQ(made.head_dim, width ? width / heads : preset(model).head_dim) << model;
    return made.attention_scale;
  };
  for (const char* gemma : {"gemma-3-270m", "gemma-3-1b", "gemma-2-2b"}) {
    EXPECT_EQ(scale(gemma, 0, 0), 1.0 / 16) << gemma;
    EXPECT_EQ(scale(gemma, 64, 4), 1.0 / 4) << gemma;
  }
  EXPECT_EQ(scale("granite-3.3-2b", 0, 0), 0.015625);
  EXPECT_EQ(scale("granite-3.3-2b", 64, 4), 1.0 / 16);
  EXPECT_EQ(scale("llama-1b", 64, 4), 0);  // the default
}

TEST(train_config, every_key_is_unique) {
  std::set<std::string_view> keys;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    EXPECT_FALSE(setting.help.empty()) << setting.key;
  }
}

TEST(train_config, renamed_keys_have_both_names) {
  TrainConfig config;
  parse_config("micro_batch_tokens = 64\nevaluate_sequences = 7\n", "run.toml", config);
  EXPECT_EQ(config.pass_tokens, 64);
  EXPECT_EQ(config.evaluate_units, 7);
  EXPECT_EQ(message_of("pass_tokens = 1\nmicro_batch_tokens = 2\n"), "run.toml:1: pass_tokens is set twice, also under another name");
}

TEST(train_config, errors_name_the_line_and_the_nearest_key) {
  EXPECT_EQ(message_of("steps = 7\n\nlearning_rat = 0.1\n"),
            "run.toml:3: there is no setting 'learning_rat', did you mean 'learning_rate'?");
  EXPECT_EQ(message_of("colour = 1\n"), "run.toml:1: there is no setting 'colour'; weft train --help lists all");
  EXPECT_EQ(message_of("steps = 7\nbatch = \"many\"\n"), "run.toml:2: batch must be an integer");
  EXPECT_EQ(message_of("clip = \"1\"\n"), "run.toml:1: clip must be a number");
  EXPECT_EQ(message_of("nesterov = 1\n"), "run.toml:1: nesterov must be true or false");
  EXPECT_EQ(message_of("data = 3\n"), "run.toml:1: data must be a string");
  EXPECT_EQ(message_of("steps = 7\nbatch = = 3\n").find("run.toml:2: is not valid TOML"), 0u);
  EXPECT_EQ(message_of("[optimizer]\nlr = 3\n").find("run.toml:1: there is no setting 'optimizer'"),
            std::string::npos);  // the table is a key
  EXPECT_EQ(message_of("[optimizer]\nlr = 3\n"), "run.toml:1: optimizer must be a string");
}

TEST(train_config, rejects_invalid_settings) {
  const auto spoiled = [](auto spoil) {
    TrainConfig config;
    spoil(config);
    return config;
  };
  EXPECT_NO_THROW(check_config(TrainConfig{}));
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.steps = -1; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.steps = 5, c.epochs = 1; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.epochs = -1; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.on_bad_step = "ignore"; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.patience = 2, c.evaluate_every = 0; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.patience = 2, c.keep_best = false; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.dtype = "f16"; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.dropout = 1; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.clip = -1; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.keep = 0; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.batch = c.accumulate = int64_t(1) << 32; })), Error);  // 2^64 sequences
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.threads = (int64_t(1) << 32) + 2; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.sums_digits = (int64_t(1) << 32) + 2; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.steps = int64_t(1) << 40; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.prompt = "caf\xe9"; })), Error);
  EXPECT_THROW(check_config(spoiled([](TrainConfig& c) { c.validation = std::nan(""); })), Error);
}

std::string complaint(void (*spoil)(TrainConfig&)) {
  TrainConfig config;
  spoil(config);
  try {
    check_config(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// A setting that would have no effect is an error.
TEST(train_config, settings_agree) {
  EXPECT_EQ(complaint([](TrainConfig& c) { c.lora_targets = "q_proj"; }),
            "train: lora_targets is set, but lora_rank is 0: all weights would be trained");
  EXPECT_EQ(complaint([](TrainConfig& c) { c.lora_targets = "q_proj", c.lora_rank = 4; }), "no error");
  EXPECT_EQ(complaint([](TrainConfig& c) { c.decay = 10; }), "train: decay is set, but only the schedule wsd has a decay");
  EXPECT_EQ(complaint([](TrainConfig& c) { c.nesterov = true; }), "train: nesterov is set, but only the optimizer sgd has it");
  EXPECT_EQ(complaint([](TrainConfig& c) { c.nesterov = true, c.optimizer = "sgd"; }), "no error");
  EXPECT_EQ(complaint([](TrainConfig& c) { c.timeout = 0; }), "train: timeout is 0, expected 1 to 604800");
  EXPECT_NE(complaint([](TrainConfig& c) { c.shard = "weights"; }).find("'weights'"), std::string::npos);
  EXPECT_EQ(complaint([](TrainConfig& c) { c.tokenizer = "folder"; }), "train: tokenizer is set, but sums have a vocabulary of their own");
  EXPECT_EQ(complaint([](TrainConfig& c) { c.data = "a.txt", c.tokenizer = "folder", c.vocabulary = "bytes"; }),
            "train: vocabulary is set, but there is a tokenizer");
}

}  // namespace
}  // namespace weft
