// The keys of a model in GGUF files: llama.cpp's defaults for absent keys, and settings that llama.cpp computes differently.
#include "weft/models/gguf_config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "tests/unit/gguf_bytes.h"
#include "tests/unit/model_cases.h"
#include "tests/unit/observed.h"
#include "weft/io/gguf.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class GgufConfig : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device("cpu", {.checked = true});
  fs::path root = fs::path(testing::TempDir()) / ("weft_gguf_config_" + std::to_string(::getpid()));

  void SetUp() override {
    fs::remove_all(root);
    fs::create_directories(root);
  }
  void TearDown() override { fs::remove_all(root); }
  std::string at(const std::string& name) const { return (root / name).string(); }

  // The config of a file with the sizes and `more` keys.
  template <class More>
  ModelConfig read(const std::string& family, More more, int heads = 4) const {
    GgufMetadata keys;
    keys.put("general.architecture", family);
    for (const auto& [key, value] : {std::pair{"context_length", 8192},
                                     {"embedding_length", 32},
                                     {"block_count", 4},
                                     {"feed_forward_length", 40},
                                     {"attention.head_count", heads}})
      keys.put(join(family, ".", key), uint32_t(value));
    keys.put(family + ".attention.layer_norm_rms_epsilon", 1e-6f);
    more(keys);
    write_gguf(at("keys.gguf"), keys,
               {{"token_embd.weight", &gguf_type_to_write("f32"), {61, 32}, [] { return std::vector<float>(61 * 32); }}});
    return read_model_config(at("keys.gguf"));
  }
  // The config of a model that was written.
  ModelConfig written(const ModelConfig& config) const {
    export_gguf(*make_model(config, *device, 5), at("model.gguf"));
    return read_model_config(at("model.gguf"));
  }
};

// llama.cpp looks for "phi3" and "phi-3" in the name of a model.
TEST_F(GgufConfig, the_name_of_a_model_is_not_that_of_its_file) {
  ModelConfig c = model_cases()[0].config;
  const auto name_of = [&](const char* file) {
    export_gguf(*make_model(c, *device, 5), at(file));
    return Gguf(at(file)).text("general.name");
  };
  EXPECT_EQ(name_of("my-phi-3.gguf"), "llama 12K");
  EXPECT_EQ(name_of("other.gguf"), "llama 12K");
  c.architecture = Architecture::phi3, c.fused_projections = true;
  EXPECT_EQ(name_of("model.gguf"), "phi 12K");
}

// llama.cpp's defaults: a Gemma 2 always has caps and a window; a Phi-3's window is in the file and has no effect there.
TEST_F(GgufConfig, keys_that_a_file_leaves_out) {
  const ModelConfig gemma = read("gemma2", [](GgufMetadata&) {});
  EXPECT_EQ(gemma.attention_soft_cap, 50);
  EXPECT_EQ(gemma.logits_soft_cap, 30);
  EXPECT_EQ(gemma.window, 4096);
  EXPECT_TRUE(gemma.has_window(0) && !gemma.has_window(1));
  const auto windowed = [&](const char* family, uint32_t window) {
    return read(family, [&](GgufMetadata& keys) { keys.put(join(family, ".attention.sliding_window"), window); });
  };
  EXPECT_EQ(windowed("gemma2", 100).window, 100);
  EXPECT_EQ(windowed("gemma2", 100000).window, 8192);  // the context: llama.cpp loads such a file
  EXPECT_NE(message_of([&] { windowed("gemma2", 0); }).find("gemma2.attention.sliding_window is 0, expected 1 to"), std::string::npos);
  EXPECT_EQ(windowed("phi3", 2047).window, 2047);
  EXPECT_TRUE(windowed("phi3", 2047).window_layers.empty());
  EXPECT_EQ(windowed("phi3", 0).window, 0);
  EXPECT_EQ(windowed("phi3", 262144).window, 0);
  const auto patterned = [&](const char* family, auto pattern) {
    return read(family, [&](GgufMetadata& keys) {
      keys.put(join(family, ".attention.sliding_window"), uint32_t(100));
      keys.put(join(family, ".attention.sliding_window_pattern"), pattern);
    });
  };
  EXPECT_EQ(patterned("olmo2", std::vector<int32_t>{1, 1, 1, 0}).architecture, Architecture::olmo3);
  EXPECT_EQ(patterned("gemma2", uint32_t(2)).window, 100);
  EXPECT_NE(message_of([&] { patterned("gemma2", uint32_t(4)); }).find("has the window in layer 1, where gemma2 has none"),
            std::string::npos);
  EXPECT_NE(message_of([&] { patterned("olmo2", std::vector<int32_t>{1}); }).find("has 1 elements, expected one for each of 4 layers"),
            std::string::npos);
}

// llama.cpp's converter writes a flag for each layer of OLMo 3.
TEST_F(GgufConfig, olmo3_as_converted) {
  const auto file = [&](const std::string& flags) {
    GgufBytes bytes;
    bytes.words("general.architecture", "olmo2");
    for (const auto& [key, value] : {std::pair{"context_length", 8192},
                                     {"embedding_length", 32},
                                     {"block_count", 4},
                                     {"feed_forward_length", 40},
                                     {"attention.head_count", 4},
                                     {"attention.sliding_window", 4096},
                                     {"rope.scaling.original_context_length", 1024}})
      bytes.u32(join("olmo2.", key), uint32_t(value));
    for (const auto& [key, value] : {std::pair{"attention.layer_norm_rms_epsilon", 1e-6f},
                                     {"rope.freq_base", 500000},
                                     {"rope.scaling.factor", 8},
                                     {"rope.scaling.yarn_attn_factor", 1.2079442f},
                                     {"rope.scaling.yarn_beta_fast", 32},
                                     {"rope.scaling.yarn_beta_slow", 1}})
      bytes.key(join("olmo2.", key), 6, GgufBytes::number(value));
    bytes.words("olmo2.rope.scaling.type", "yarn");
    bytes.key("olmo2.attention.sliding_window_pattern", 9, GgufBytes::number(uint32_t(7)) + GgufBytes::number(uint64_t(4)) + flags);
    bytes.tensor("token_embd.weight", {32, 61}, 0, 0);
    bytes.data = std::string(32 * 61 * 4, '\0');
    std::ofstream(at("olmo3.gguf"), std::ios::binary) << bytes.bytes();
    return read_model_config(at("olmo3.gguf"));
  };
  const ModelConfig c = file({1, 1, 1, 0});
  EXPECT_EQ(c.architecture, Architecture::olmo3);
  EXPECT_EQ(c.window, 4096);
  EXPECT_EQ(c.window_layers, (std::vector<bool>{true, true, true, false}));
  EXPECT_EQ(c.local_rope_theta, 500000);
  EXPECT_NEAR(c.rope_scaling.attention_factor, 1.2079441541679836, 1e-12);
  EXPECT_EQ(c.rope_scaling.original_context, 1024);
  EXPECT_NE(message_of([&] { file({1, 0, 1, 0}); }).find("has no window in layer 1, where olmo3 has it"), std::string::npos);
}

TEST_F(GgufConfig, a_repetition_penalty_of_zero_is_refused) {
  read("llama", [](GgufMetadata& keys) { keys.put("general.sampling.penalty_repeat", 0.0f); });
  EXPECT_NE(
      message_of([&] { read_generation_config(at("keys.gguf")); }).find("general.sampling.penalty_repeat is 0, expected a number above 0"),
      std::string::npos);
}

// llama.cpp computes with these keys.
TEST_F(GgufConfig, keys_that_change_the_maths_are_refused_by_name) {
  const auto error = [&](const char* family, const char* key, auto value) {
    const std::string message = message_of([&] {
      read(family, [&](GgufMetadata& keys) {
        if (family == std::string("granite")) keys.put("granite.logit_scale", 2.0f);
        keys.put(join(family, ".", key), value);
      });
    });
    return message == "no error" ? "" : message.substr(message.find(": ") + 2);
  };
  EXPECT_EQ(error("llama", "attention.causal", false), "llama.attention.causal is false, which is not supported");
  EXPECT_EQ(error("llama", "attention.causal", true), "");
  EXPECT_EQ(error("granite", "rope.scaling.finetuned", false), "granite.rope.scaling.finetuned is false, which is not supported");
  EXPECT_EQ(error("granite", "rope.scaling.finetuned", true), "");
  EXPECT_EQ(error("qwen3", "rope.scaling.finetuned", false), "");  // Granite's switch alone
  EXPECT_EQ(error("llama", "rope.scaling.attn_factor", 1.5f), "llama.rope.scaling.attn_factor is 1.5, which needs a scaling of type yarn");
  EXPECT_EQ(error("llama", "rope.scaling.attn_factor", 1.0f), "");
  EXPECT_EQ(error("gemma2", "rope.freq_base_swa", 500000.0f), "gemma2.rope.freq_base_swa is 500000, expected rope.freq_base, 10000");
  EXPECT_EQ(error("gemma2", "rope.freq_base_swa", 10000.0f), "");
  EXPECT_EQ(error("olmo2", "rope.freq_base_swa", 500000.0f), "");  // without windows it has no effect
  EXPECT_EQ(error("gemma3", "attention.key_length_swa", uint32_t(4)),
            "gemma3.attention.key_length_swa is 4, expected the size of a head, 8");
  const std::string other = message_of([&] {
    read("olmo2", [](GgufMetadata& keys) {
      keys.put("olmo2.attention.sliding_window", uint32_t(100));
      keys.put("olmo2.rope.freq_base_swa", 1000.0f);
    });
  });
  EXPECT_NE(other.find("olmo2.rope.freq_base_swa is 1000, expected rope.freq_base, 10000"), std::string::npos) << other;
}

// By the keys of the file, not by the fields that they are read into.
TEST_F(GgufConfig, sizes_that_do_not_fit_are_named_by_their_keys) {
  const auto error = [&](const char* family, std::initializer_list<std::pair<const char*, uint32_t>> more) {
    const std::string message = message_of([&] {
      read(family, [&](GgufMetadata& keys) {
        for (const auto& [key, value] : more) keys.put(join(family, ".", key), value);
      });
    });
    return message.substr(message.find(": ") + 2);
  };
  EXPECT_EQ(error("llama", {{"attention.head_count_kv", 3}}),
            "llama.attention.head_count is 4, expected a multiple of llama.attention.head_count_kv, 3");
  EXPECT_EQ(error("qwen3moe", {{"expert_count", 4}, {"expert_used_count", 5}, {"expert_feed_forward_length", 16}}),
            "qwen3moe.expert_used_count is 5, expected 1 to 4");
  EXPECT_EQ(error("qwen3moe", {{"expert_count", 5000}, {"expert_used_count", 5}, {"expert_feed_forward_length", 16}}),
            "qwen3moe.expert_count is 5000, expected 1 to 1024");
}

TEST_F(GgufConfig, hybrids_are_refused_by_name) {
  for (const char* hybrid : {"qwen35", "lfm2", "granitehybrid"}) {
    const std::string message = message_of([&] { read(hybrid, [](GgufMetadata&) {}); });
    const std::string expected =
        join("general.architecture is '", hybrid, "', a model with recurrent or convolution layers; supported are llama, ");
    EXPECT_NE(message.find(expected), std::string::npos) << message;
  }
}

TEST_F(GgufConfig, a_scaling_factor_without_a_type_is_linear) {
  const auto scaling = [&](float factor) {
    return read("llama", [&](GgufMetadata& keys) { keys.put("llama.rope.scaling.factor", factor); }).rope_scaling;
  };
  EXPECT_EQ(scaling(4).kind, RopeScaling::Kind::linear);
  EXPECT_EQ(scaling(4).factor, 4);
  EXPECT_EQ(scaling(1), RopeScaling());
  EXPECT_EQ(scaling(0), RopeScaling());
}

// Models that llama.cpp would run with a cap, with a window or without one.
TEST_F(GgufConfig, models_that_llama_cpp_computes_otherwise_are_refused) {
  const auto refused = [&](const char* name, auto change) {
    ModelConfig c;
    for (const ModelCase& each : model_cases())
      if (each.name == name) c = each.config;
    c.rope_scaling = {}, c.rotary_fraction = 1, c.head_dim = 6;
    if (c.attention_scale != 0) c.attention_scale = 1 / std::sqrt(6.0);
    const auto reason = [&] {
      const std::string message = message_of([&] { export_gguf(*make_model(c, *device, 1), at("other.gguf")); });
      return message.substr(message.rfind(" has another ") + 1);
    };
    EXPECT_NO_THROW(export_gguf(*make_model(c, *device, 1), at("other.gguf"))) << name;
    change(c);
    return reason();
  };
  EXPECT_EQ(refused("gemma2", [](ModelConfig& c) { c.attention_soft_cap = 0; }), "has another soft cap");
  EXPECT_EQ(refused("gemma2", [](ModelConfig& c) { c.logits_soft_cap = 0; }), "has another soft cap");
  EXPECT_EQ(refused("gemma2", [](ModelConfig& c) { c.window = 0; }), "has another window of attention");
  EXPECT_EQ(refused("phi3", [](ModelConfig& c) { c.window = 5; }),
            "has another window of attention; with --context 5 the window has no effect and the model can be written");
  const auto yarn = [](double beta_fast, bool truncate) {
    return [=](ModelConfig& c) {
      c.rope_scaling = {.kind = RopeScaling::Kind::yarn, .factor = 4, .original_context = 12};
      c.rope_scaling.beta_fast = beta_fast, c.rope_scaling.truncate = truncate;
    };
  };
  EXPECT_EQ(refused("qwen3", yarn(16, true)), "has another RoPE scaling; here it is yarn");
  EXPECT_EQ(refused("qwen3", yarn(32, false)), "has another range of yarn, which it rounds; truncate is false here");
  EXPECT_EQ(refused("gemma2", yarn(32, true)), "has another RoPE scaling; here it is yarn");
  const auto dynamic = [](ModelConfig& c) { c.rope_scaling = {.kind = RopeScaling::Kind::dynamic, .factor = 2, .original_context = 12}; };
  EXPECT_EQ(refused("qwen3", dynamic), "has another RoPE scaling; here it is dynamic");
  EXPECT_EQ(refused("gpt_oss", yarn(32, false)), "has another range of yarn, which it rounds; truncate is false here");  // as published
  EXPECT_EQ(refused("gpt_oss", [](ModelConfig& c) { c.gate_limit = 1.5; }), "has another gate of experts");
  EXPECT_EQ(refused("gpt_oss", [](ModelConfig& c) { c.tie_embeddings = true; }), "has another head");
  EXPECT_EQ(refused("gpt_oss", [](ModelConfig& c) { c.qkv_bias = c.attention_out_bias = false; }), "has another set of biases");
  EXPECT_EQ(refused("gpt_oss", [](ModelConfig& c) { c.window = 0, c.window_layers.clear(); }), "has another window of attention");
}

// A window of the whole context has no effect: families without windows are written without it, and for Gemma 2 it may be in any layers.
TEST_F(GgufConfig, a_window_as_large_as_the_context_is_none) {
  ModelConfig c = model_cases()[0].config;
  c.architecture = Architecture::mistral, c.window = c.max_positions;
  EXPECT_EQ(written(c).window, 0);
  c.window -= 1;
  EXPECT_NE(message_of([&] { written(c); }).find("has another window of attention; with --context 47 the window has no effect"),
            std::string::npos);
  declare_context(c, 47);
  EXPECT_EQ(written(c).max_positions, 47);
  c.max_positions = 48;
  c.architecture = Architecture::phi3, c.fused_projections = true, c.window = c.max_positions;
  EXPECT_EQ(written(c).window, 0);
  for (const ModelCase& each : model_cases())
    if (each.name == "gemma2") c = each.config;
  c.attention_scale = 1 / std::sqrt(6.0), c.window = c.max_positions, c.window_layers.clear();
  EXPECT_EQ(written(c).window, c.max_positions);
  EXPECT_EQ(written(c).window_layers, (std::vector<bool>{true, false}));
}

TEST_F(GgufConfig, yarn_round_trips) {
  const auto round_trip = [&](Architecture architecture, double attention_factor, auto change) {
    ModelConfig c = model_cases()[0].config;
    c.architecture = architecture, c.layers = 7, c.head_dim = 6;
    c.rope_scaling = {.kind = RopeScaling::Kind::yarn, .factor = 8, .original_context = 16, .attention_factor = attention_factor};
    change(c);
    const ModelConfig back = written(c);
    c.initializer_range = back.initializer_range;
    EXPECT_EQ(back, c) << name(architecture);
  };
  const double usual = 0.1 * std::log(8.0) + 1;
  round_trip(Architecture::olmo3, usual, [](ModelConfig& c) {
    c.norms = NormPlaces::after, c.qk_norm = c.qk_norm_whole = true;
    c.rope_theta = c.local_rope_theta = 500000, c.window = 5, c.window_layers = {true, true, true, false, true, true, true};
  });
  round_trip(Architecture::qwen3, usual, [](ModelConfig& c) { c.qk_norm = true; });
  round_trip(Architecture::llama, 0.5 * usual, [](ModelConfig&) {});
  for (const double attention_factor : {usual, 1.0, 2 * usual})
    round_trip(Architecture::ministral3, attention_factor,
               [](ModelConfig& c) { c.query_growth = 0.3, c.rope_scaling.beta_fast = 2, c.rope_scaling.beta_slow = 0.25; });
}

// As llama.cpp's converter writes Ministral 3, whose mscale_all_dim is 1; without the growth of queries mistral3 is a Llama.
TEST_F(GgufConfig, mistral3_as_converted) {
  const auto file = [&](float multiplier, float growth, const char* type) {
    return read("mistral3", [&](GgufMetadata& keys) {
      keys.put("mistral3.rope.scaling.type", type);
      for (const auto& [key, value] : {std::pair{"rope.scaling.factor", 16.0f},
                                       {"rope.scaling.yarn_beta_fast", 32.0f},
                                       {"rope.scaling.yarn_log_multiplier", multiplier},
                                       {"attention.temperature_scale", growth}})
        keys.put(join("mistral3.", key), value);
      keys.put("mistral3.rope.scaling.original_context_length", uint32_t(512));
    });
  };
  const ModelConfig c = file(1, 0.1f, "yarn");
  EXPECT_EQ(c.architecture, Architecture::ministral3);
  EXPECT_EQ(c.query_growth, 0.1);
  EXPECT_EQ(c.rope_scaling.attention_factor, 1);
  EXPECT_EQ(c.rope_scaling.original_context, 512);
  EXPECT_NEAR(file(0, 0.1f, "yarn").rope_scaling.attention_factor, 0.1 * std::log(16.0) + 1, 1e-12);
  EXPECT_NEAR(file(0.5f, 0.1f, "yarn").rope_scaling.attention_factor, (0.1 * std::log(16.0) + 1) / (0.05 * std::log(16.0) + 1), 1e-12);
  EXPECT_EQ(file(1, 0, "yarn").architecture, Architecture::llama);
  EXPECT_EQ(file(1, 0, "yarn").rope_scaling.attention_factor, 1);
  EXPECT_EQ(file(1, 0.1f, "linear").architecture, Architecture::llama);  // the whole context is the original one: nothing grows
  EXPECT_NE(message_of([&] { file(-1, 0.1f, "yarn"); }).find("yarn_log_multiplier is -1, expected a number of 0 or more"),
            std::string::npos);
}

TEST_F(GgufConfig, longrope_of_phi3) {
  const auto file = [&](std::vector<const char*> tensors, auto more) {
    GgufMetadata keys;
    ModelConfig c = model_cases()[0].config;
    c.architecture = Architecture::phi3, c.fused_projections = true, c.rotary_fraction = 0.7;  // 4 of 6
    keys.put("general.architecture", "phi3");
    put_model_config(c, keys);
    keys.put("phi3.rope.scaling.original_context_length", uint32_t(12));
    more(keys);
    std::vector<GgufTensor> all{{"token_embd.weight", &gguf_type_to_write("f32"), {61, 24}, [] { return std::vector<float>(61 * 24); }}};
    for (const char* name : tensors) all.push_back({name, &gguf_type_to_write("f32"), {2}, [] { return std::vector<float>{1, 1.1f}; }});
    write_gguf(at("keys.gguf"), keys, all);
    return read_model_config(at("keys.gguf"));
  };
  const std::vector<const char*> both{"rope_factors_long.weight", "rope_factors_short.weight"};
  const ModelConfig c = file(both, [](GgufMetadata& keys) { keys.put("phi3.rope.scaling.attn_factor", 1.25f); });
  EXPECT_EQ(c.rotary_dims(), 4);
  EXPECT_EQ(c.rope_scaling.kind, RopeScaling::Kind::longrope);
  EXPECT_EQ(c.rope_scaling.original_context, 12);
  EXPECT_EQ(c.rope_scaling.factor, 4);  // 48 by 12
  EXPECT_EQ(c.rope_scaling.attention_factor, 1.25);
  EXPECT_EQ(c.rope_scaling.long_factors, (std::vector<double>{1, 1.1}));
  EXPECT_EQ(file(both, [](GgufMetadata&) {}).rope_scaling.attention_factor, 1);
  EXPECT_EQ(file({}, [](GgufMetadata&) {}).rope_scaling, RopeScaling());
  const auto error = [&](std::vector<const char*> tensors, auto more) {
    const std::string message = message_of([&] { file(tensors, more); });
    return message.substr(message.find(": ") + 2);
  };
  EXPECT_EQ(error({both[0]}, [](GgufMetadata&) {}), "has no tensor 'rope_factors_short.weight', expected one of shape 2");
  EXPECT_EQ(error(both, [](GgufMetadata& keys) { keys.put("phi3.rope.scaling.type", "yarn"); }),
            "phi3.rope.scaling.type is 'yarn' beside the tensor 'rope_factors_long.weight'");
  EXPECT_EQ(error(both,
                  [](GgufMetadata& keys) {
                    keys.put("phi3.rope.scaling.type", "longrope");
                    keys.put("phi3.rope.scaling.factor", 4.0f);
                  }),
            "phi3.rope.scaling.factor is 4 beside the tensor 'rope_factors_long.weight'");
}

TEST_F(GgufConfig, heads_of_no_size_have_no_rotated_part) {
  const auto error = [&](bool rotated) {
    return message_of([&] {
      read(
          "phi3",
          [&](GgufMetadata& keys) {
            keys.put("phi3.attention.head_count_kv", uint32_t(4));
            if (rotated) keys.put("phi3.rope.dimension_count", uint32_t(8));
          },
          64);
    });
  };
  EXPECT_NE(error(true).find("phi3.rope.dimension_count is 8, expected 2 to 0"), std::string::npos) << error(true);
  EXPECT_NE(error(false).find("head_dim is 0, expected 1 to"), std::string::npos) << error(false);
}

TEST_F(GgufConfig, wrong_keys_of_yarn_are_named) {
  const auto error = [&](const char* key, float value) {
    const std::string message = message_of([&] {
      read("llama", [&](GgufMetadata& keys) {
        keys.put("llama.rope.scaling.type", "yarn");
        keys.put(key, value);
        if (std::string(key) != "llama.rope.scaling.factor") keys.put("llama.rope.scaling.factor", 4.0f);
      });
    });
    return message.substr(message.find(": ") + 2);
  };
  EXPECT_EQ(error("llama.rope.scaling.factor", 0.5f), "llama.rope.scaling.factor is 0.5, expected 1 or more");
  EXPECT_EQ(error("llama.rope.scaling.attn_factor", -1), "llama.rope.scaling.attn_factor is -1, expected a number above 0");
  EXPECT_EQ(error("llama.rope.scaling.yarn_beta_fast", 16),
            "llama.rope.scaling.yarn_beta_fast is 16, expected 32, which llama.cpp computes with");
}

}  // namespace
}  // namespace weft
