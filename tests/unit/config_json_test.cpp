#include "weft/models/config_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/base/check.h"
#include "weft/base/error.h"

namespace weft {
namespace {

using nlohmann::json;

const json kSmolLm2 = json::parse(R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":0,
  "eos_token_id":0,"hidden_act":"silu","hidden_size":576,"initializer_range":0.041666666666666664,"intermediate_size":1536,
  "is_llama_config":true,"max_position_embeddings":8192,"model_type":"llama","num_attention_heads":9,"num_hidden_layers":30,
  "num_key_value_heads":3,"pretraining_tp":1,"rms_norm_eps":1e-05,"rope_interleaved":false,"rope_scaling":null,"rope_theta":100000,
  "tie_word_embeddings":true,"torch_dtype":"bfloat16","transformers_version":"4.40.1","use_cache":true,"vocab_size":49152})");
const json kLlama32 =
    json::parse(R"({"architectures":["LlamaForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":128000,
  "eos_token_id":[128001,128008,128009],"head_dim":64,"hidden_act":"silu","hidden_size":2048,"initializer_range":0.02,"intermediate_size":8192,
  "max_position_embeddings":131072,"mlp_bias":false,"model_type":"llama","num_attention_heads":32,"num_hidden_layers":16,
  "num_key_value_heads":8,"pretraining_tp":1,"rms_norm_eps":1e-05,"rope_scaling":{"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
  "original_max_position_embeddings":8192,"rope_type":"llama3"},"rope_theta":500000.0,"tie_word_embeddings":true,"torch_dtype":"bfloat16",
  "transformers_version":"4.45.0.dev0","use_cache":true,"vocab_size":128256})");
const json kQwen25 =
    json::parse(R"({"architectures":["Qwen2ForCausalLM"],"attention_dropout":0.0,"bos_token_id":151643,"eos_token_id":151643,
  "hidden_act":"silu","hidden_size":896,"initializer_range":0.02,"intermediate_size":4864,"max_position_embeddings":32768,"max_window_layers":24,
  "model_type":"qwen2","num_attention_heads":14,"num_hidden_layers":24,"num_key_value_heads":2,"rms_norm_eps":1e-06,"rope_theta":1000000.0,
  "sliding_window":32768,"tie_word_embeddings":true,"torch_dtype":"bfloat16","transformers_version":"4.40.1","use_cache":true,"use_mrope":false,
  "use_sliding_window":false,"vocab_size":151936})");
const json kQwen3 =
    json::parse(R"({"architectures":["Qwen3ForCausalLM"],"attention_bias":false,"attention_dropout":0.0,"bos_token_id":151643,
  "eos_token_id":151645,"head_dim":128,"hidden_act":"silu","hidden_size":1024,"initializer_range":0.02,"intermediate_size":3072,
  "max_position_embeddings":40960,"max_window_layers":28,"model_type":"qwen3","num_attention_heads":16,"num_hidden_layers":28,
  "num_key_value_heads":8,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":1000000,"sliding_window":null,"tie_word_embeddings":true,
  "torch_dtype":"bfloat16","transformers_version":"4.51.0","use_cache":true,"use_sliding_window":false,"vocab_size":151936})");
const json kGpt2 =
    json::parse(R"({"activation_function":"gelu_new","architectures":["GPT2LMHeadModel"],"attn_pdrop":0.1,"bos_token_id":50256,
  "embd_pdrop":0.1,"eos_token_id":50256,"initializer_range":0.02,"layer_norm_epsilon":1e-05,"model_type":"gpt2","n_ctx":1024,"n_embd":768,
  "n_head":12,"n_layer":12,"n_positions":1024,"resid_pdrop":0.1,"summary_activation":null,"summary_first_dropout":0.1,
  "summary_proj_to_labels":true,"summary_type":"cls_index","summary_use_proj":true,
  "task_specific_params":{"text-generation":{"do_sample":true,"max_length":50}},"vocab_size":50257})");

ModelConfig parse(const json& config) { return parse_model_config(config.dump(), "folder/config.json"); }
json with(json config, const json& changes) {
  for (const auto& [key, value] : changes.items()) config[key] = value;
  return config;
}
json without(json config, const char* key) {
  config.erase(key);
  return config;
}

TEST(ConfigJson, real_configs) {
  const ModelConfig smol = parse(kSmolLm2);
  ModelConfig expected = preset("smollm2-135m");
  expected.dtype = DType::bf16;
  expected.initializer_range = 0.041666666666666664;
  EXPECT_EQ(smol, expected);
  EXPECT_EQ(smol.parameter_count(), 134515008);

  const ModelConfig llama = parse(kLlama32);
  EXPECT_EQ(llama.rope_scaling, (RopeScaling{RopeScaling::Kind::llama3, 32, 1, 4, 8192}));
  EXPECT_EQ(llama.eos_ids, (std::vector<int64_t>{128001, 128008, 128009}));
  EXPECT_EQ(llama.parameter_count(), 1235814400);
  expected = preset("llama-3.2-1b");
  expected.dtype = DType::bf16;
  expected.eos_ids = llama.eos_ids;  // the file is the instruction-tuned model's
  EXPECT_EQ(llama, expected);

  const ModelConfig qwen2 = parse(kQwen25);
  EXPECT_TRUE(qwen2.qkv_bias && !qwen2.attention_out_bias && !qwen2.mlp_bias && !qwen2.qk_norm);
  EXPECT_EQ(qwen2.head_dim, 64);
  EXPECT_EQ(qwen2.parameter_count(), 494032768);
  expected = preset("qwen2.5-0.5b");
  expected.dtype = DType::bf16;
  EXPECT_EQ(qwen2, expected);

  const ModelConfig qwen3 = parse(kQwen3);
  EXPECT_TRUE(qwen3.qk_norm && !qwen3.qkv_bias);
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_EQ(qwen3.parameter_count(), 596049920);

  EXPECT_EQ(parse(kGpt2), preset("gpt2-124m"));
  EXPECT_EQ(parse(kGpt2).parameter_count(), 124439808);
}

TEST(ConfigJson, golden_configs_round_trip) {
  for (const std::string model : {"gpt2", "llama", "qwen3"}) {
    const ModelConfig config = read_model_config(WEFT_GOLDEN_MODELS "/" + model);
    EXPECT_EQ(parse_model_config(model_config_json(config)), config) << model;
  }
  for (const json& real : {kSmolLm2, kLlama32, kQwen25, kQwen3, kGpt2})
    EXPECT_EQ(parse_model_config(model_config_json(parse(real))), parse(real));
  const GenerationConfig generation = read_generation_config(WEFT_GOLDEN_MODELS "/llama");
  EXPECT_EQ(generation.bos_id, 1);
  EXPECT_EQ(generation.eos_ids, std::vector<int64_t>{2});
  EXPECT_FALSE(generation.temperature);
}

TEST(ConfigJson, older_and_newer_spellings_mean_the_same) {
  json newer = without(without(without(kLlama32, "rope_theta"), "rope_scaling"), "torch_dtype");
  newer["dtype"] = "bfloat16";
  newer["rope_parameters"] = with(kLlama32["rope_scaling"], {{"rope_theta", 500000.0}});
  EXPECT_EQ(parse(newer), parse(kLlama32));
  EXPECT_EQ(parse(with(kLlama32, newer)), parse(kLlama32));  // both spellings at once
  json type = kLlama32;
  type["rope_scaling"].erase("rope_type");
  type["rope_scaling"]["type"] = "llama3";
  EXPECT_EQ(parse(type), parse(kLlama32));
  EXPECT_EQ(parse(with(kSmolLm2, {{"rope_scaling", {{"type", "default"}}}})), parse(kSmolLm2));
  EXPECT_EQ(parse(with(without(kSmolLm2, "rope_theta"), {{"rope_scaling", {{"rope_type", "default"}, {"rope_theta", 100000}}}})),
            parse(kSmolLm2));
  EXPECT_EQ(parse(without(kSmolLm2, "model_type")), parse(kSmolLm2));
  EXPECT_EQ(parse(without(kSmolLm2, "architectures")), parse(kSmolLm2));
  json common = without(without(kGpt2, "n_embd"), "n_head");
  EXPECT_EQ(parse(with(common, {{"hidden_size", 768}, {"num_attention_heads", 12}})), parse(kGpt2));
}

TEST(ConfigJson, defaults_of_each_architecture) {
  EXPECT_FALSE(parse(without(kSmolLm2, "tie_word_embeddings")).tie_embeddings);
  EXPECT_TRUE(parse(kGpt2).tie_embeddings);
  EXPECT_EQ(parse(without(kSmolLm2, "num_key_value_heads")).kv_heads, 9);
  EXPECT_EQ(parse(without(kSmolLm2, "rope_theta")).rope_theta, 10000);
  EXPECT_EQ(parse(without(kGpt2, "attn_pdrop")).attention_dropout, 0.1f);
  EXPECT_EQ(parse(with(kGpt2, {{"n_inner", nullptr}})).intermediate_size, 3072);
  EXPECT_EQ(parse(with(kGpt2, {{"n_inner", 100}})).intermediate_size, 100);
  EXPECT_TRUE(parse(with(kSmolLm2, {{"attention_bias", true}, {"mlp_bias", true}})).attention_out_bias);
}

TEST(ConfigJson, padding_token_round_trip) {
  EXPECT_FALSE(parse(kSmolLm2).pad_id);
  const ModelConfig padded = parse(with(kSmolLm2, {{"pad_token_id", 2}}));
  EXPECT_EQ(padded.pad_id, 2);
  EXPECT_EQ(parse_model_config(model_config_json(padded)), padded);
}

TEST(ConfigJson, minus_one_means_no_token) {
  const ModelConfig none = parse(with(kSmolLm2, {{"bos_token_id", -1}, {"eos_token_id", -1}, {"pad_token_id", -1}}));
  EXPECT_FALSE(none.bos_id || none.pad_id);
  EXPECT_TRUE(none.eos_ids.empty());
  EXPECT_FALSE(parse_generation_config(R"({"pad_token_id": -1})").pad_id);
}

// transformers' names for one function, and a GPT-2 option about rounding of scores: ours are always f32.
TEST(ConfigJson, aliases_of_activations) {
  for (const char* name : {"gelu_fast", "gelu_accurate", "gelu_python_tanh"})
    EXPECT_EQ(parse(with(kGpt2, {{"activation_function", name}})), parse(kGpt2)) << name;
  EXPECT_EQ(parse(with(kGpt2, {{"activation_function", "gelu_python"}})), parse(with(kGpt2, {{"activation_function", "gelu"}})));
  EXPECT_EQ(parse(with(kGpt2, {{"reorder_and_upcast_attn", true}})), parse(kGpt2));
}

void refuses(const json& config, ErrorCode code, const std::string& reason) {
  try {
    parse(config);
    ADD_FAILURE() << "accepted: " << reason;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find("folder/config.json"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}

TEST(ConfigJson, unsupported_options_are_named) {
  const auto code = ErrorCode::unsupported;
  refuses(with(kSmolLm2, {{"model_type", "qwen2_moe"}}), code, "'qwen2_moe'");
  refuses(with(kSmolLm2, {{"architectures", {"LlamaForSequenceClassification"}}}), code, "'LlamaForSequenceClassification'");
  refuses(with(without(kSmolLm2, "model_type"), {{"architectures", {"GemmaForCausalLM"}}}), code, "'GemmaForCausalLM'");
  refuses(with(kSmolLm2, {{"quantization_config", {{"bits", 4}}}}), code, "$.quantization_config");
  refuses(with(kSmolLm2, {{"model_type", "olmoe"}}), code, "$.model_type is 'olmoe', a mixture of experts; supported are llama, ");
  for (const char* hybrid : {"granitemoehybrid", "qwen3_5", "qwen3_5_moe", "lfm2", "lfm2_moe", "qwen3_next"})
    refuses(with(kSmolLm2, {{"model_type", hybrid}, {"architectures", {"OtherForCausalLM"}}}), code,
            join("$.model_type is '", hybrid, "', a model with recurrent or convolution layers; supported are llama, "));
  refuses(with(kSmolLm2, {{"model_type", "gemma3"}}), code, "text and images");
  refuses(with(kSmolLm2, {{"rope_scaling", {{"rope_type", "mrope"}, {"factor", 4}}}}), code, "'mrope'");
  refuses(with(kSmolLm2, {{"rope_parameters", {{"full_attention", {{"rope_theta", 1}}}}}}), code, "differ by layer");
  refuses(with(kSmolLm2, {{"rope_interleaved", true}}), code, "rope_interleaved");
  refuses(with(kSmolLm2, {{"partial_rotary_factor", 0.5}}), code, "partial_rotary_factor");
  refuses(with(kSmolLm2, {{"hidden_act", "quick_gelu"}}), code, "'quick_gelu'");
  refuses(with(kSmolLm2, {{"torch_dtype", "float8_e4m3fn"}}), code, "'float8_e4m3fn'");
  refuses(with(kSmolLm2, {{"use_sliding_window", true}}), code, "use_sliding_window");
  refuses(with(kQwen3, {{"layer_types", {"full_attention", "sliding_attention"}}}), code, "'sliding_attention'");
  refuses(with(kGpt2, {{"add_cross_attention", true}}), code, "add_cross_attention");
  refuses(with(kGpt2, {{"auto_map", {{"AutoModelForCausalLM", "x.Y"}}}}), code, "auto_map");
}

TEST(ConfigJson, errors_have_the_json_path) {
  const auto code = ErrorCode::bad_file;
  refuses(json::array(), code, "expected an object");
  refuses(json::object(), code, "neither 'model_type' nor 'architectures'");
  refuses(without(kSmolLm2, "hidden_size"), code, "no 'hidden_size'");
  refuses(without(kQwen25, "num_key_value_heads"), code, "num_key_value_heads");
  refuses(with(kSmolLm2, {{"hidden_size", "576"}}), code, "$.hidden_size is \"576\", expected an integer");
  refuses(with(kSmolLm2, {{"hidden_size", 576.5}}), code, "$.hidden_size is 576.5");
  refuses(with(kSmolLm2, {{"hidden_size", -1}}), code, "$.hidden_size is -1");
  refuses(with(kSmolLm2, {{"hidden_size", 1e30}}), code, "$.hidden_size");
  refuses(with(kSmolLm2, {{"num_attention_heads", 7}}), code, "does not divide");
  refuses(with(kSmolLm2, {{"num_key_value_heads", 2}}), code, "$.num_attention_heads is 9, expected a multiple of num_key_value_heads, 2");
  refuses(with(kSmolLm2, {{"rope_theta", 0}}), code, "$.rope_theta is 0");
  refuses(with(kSmolLm2, {{"attention_dropout", 1.5}}), code, "$.attention_dropout is 1.5, expected zero or more and below 1");
  refuses(with(kGpt2, {{"embd_pdrop", -0.1}}), code, "$.embd_pdrop is -0.1, expected zero or more");
  refuses(with(kSmolLm2, {{"rms_norm_eps", -1}}), code, "$.rms_norm_eps is -1, expected a finite f32 of zero or more");
  refuses(with(kSmolLm2, {{"rms_norm_eps", 1e39}}), code, "$.rms_norm_eps is 1e+39");
  refuses(with(kGpt2, {{"layer_norm_epsilon", -1}}), code, "$.layer_norm_epsilon is -1");
  refuses(with(kSmolLm2, {{"eos_token_id", "</s>"}}), code, "$.eos_token_id");
  refuses(with(kSmolLm2, {{"dtype", "float32"}}), code, "torch_dtype is 'bfloat16'");
  refuses(with(kSmolLm2, {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 1e300}}}}), code, "dynamic scaling by 1e+300");
  refuses(with(kLlama32, {{"rope_parameters", {{"rope_theta", 500000.0}, {"rope_type", "default"}}}}), code, "do not agree");
  refuses(with(kLlama32, {{"rope_parameters", {{"rope_theta", 1.0}}}}), code,
          "$.rope_parameters.rope_theta is 1 and $.rope_theta is 500000");
  refuses(with(kSmolLm2, {{"rope_scaling", {{"rope_theta", 1.0}}}}), code, "$.rope_scaling.rope_theta is 1 and $.rope_theta is 100000");
  json scaling = kLlama32;
  scaling["rope_scaling"]["factor"] = "32";
  refuses(scaling, code, "$.rope_scaling.factor is \"32\", expected a number");
  scaling["rope_scaling"].erase("factor");
  refuses(scaling, code, "$.rope_scaling has no 'factor'");
}

// Here, not where it is used without the file's name.
TEST(ConfigJson, a_repetition_penalty_of_zero_is_refused) {
  EXPECT_EQ(parse_generation_config(R"({"repetition_penalty": 1.2})").repetition_penalty, 1.2);
  try {
    parse_generation_config(R"({"repetition_penalty": 0})", "folder/generation_config.json");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_STREQ(error.what(), "folder/generation_config.json: $.repetition_penalty is 0, expected a number above 0 (1: none)");
  }
}

}  // namespace
}  // namespace weft
