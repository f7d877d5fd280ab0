// config.json of the families: published files, round trips, and errors that name the key.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/models/config_json.h"

namespace weft {
namespace {

using nlohmann::json;

json model(const char* type, const char* class_name, const json& keys) {
  json config = json::parse(R"({"hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,"num_attention_heads":16,
    "num_key_value_heads":4,"max_position_embeddings":4096,"rms_norm_eps":1e-05,"rope_theta":10000.0,"torch_dtype":"bfloat16",
    "vocab_size":32000,"bos_token_id":1,"eos_token_id":2})");
  config["model_type"] = type;
  config["architectures"] = {class_name};
  config.update(keys);
  return config;
}

const json kMistral = model("mistral", "MistralForCausalLM", json::parse(R"({"hidden_size":4096,"intermediate_size":14336,
  "num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":32768,"sliding_window":4096})"));
const json kGranite = model("granite", "GraniteForCausalLM", json::parse(R"({"attention_bias":false,"attention_multiplier":0.015625,
  "bos_token_id":0,"embedding_multiplier":12.0,"eos_token_id":0,"logits_scaling":8.0,"max_position_embeddings":131072,"mlp_bias":false,
  "num_attention_heads":32,"num_hidden_layers":40,"num_key_value_heads":8,"pad_token_id":0,"residual_multiplier":0.22,"rope_scaling":null,
  "rope_theta":10000000.0,"tie_word_embeddings":true,"vocab_size":49159})"));
const json kSmolLm3 =
    model("smollm3", "SmolLM3ForCausalLM", json::parse(R"({"bos_token_id":null,"eos_token_id":128001,"pad_token_id":128004,
  "intermediate_size":11008,"num_hidden_layers":36,"max_position_embeddings":65536,"no_rope_layer_interval":4,"rms_norm_eps":1e-06,
  "rope_theta":5000000.0,"sliding_window":null,"tie_word_embeddings":true,"use_sliding_window":false,"vocab_size":128256})"));
const json kOlmo2 = model("olmo2", "Olmo2ForCausalLM", json::parse(R"({"bos_token_id":null,"eos_token_id":100257,"pad_token_id":100277,
  "num_key_value_heads":16,"rms_norm_eps":1e-06,"rope_theta":500000,"tie_word_embeddings":false,"vocab_size":100352})"));
const json kPhi3 =
    model("phi3", "Phi3ForCausalLM", json::parse(R"({"auto_map":{"AutoConfig":"configuration_phi3.Phi3Config"},"embd_pdrop":0.0,
  "eos_token_id":32000,"hidden_size":3072,"num_attention_heads":32,"num_hidden_layers":32,"num_key_value_heads":32,
  "original_max_position_embeddings":4096,"pad_token_id":32000,"resid_pdrop":0.0,"rope_scaling":null,"sliding_window":2047,"vocab_size":32064})"));
const json kGemma2 = model("gemma2", "Gemma2ForCausalLM", json::parse(R"({"attn_logit_softcapping":50.0,"final_logit_softcapping":30.0,
  "bos_token_id":2,"eos_token_id":1,"pad_token_id":0,"head_dim":256,"hidden_act":"gelu_pytorch_tanh","hidden_activation":"gelu_pytorch_tanh",
  "hidden_size":2304,"intermediate_size":9216,"max_position_embeddings":8192,"num_attention_heads":8,"num_hidden_layers":26,
  "query_pre_attn_scalar":256,"rms_norm_eps":1e-06,"sliding_window":4096,"vocab_size":256000})"));
const json kGemma3 = model("gemma3_text", "Gemma3ForCausalLM", json::parse(R"({"attn_logit_softcapping":null,"final_logit_softcapping":null,
  "bos_token_id":2,"eos_token_id":1,"pad_token_id":0,"head_dim":256,"hidden_activation":"gelu_pytorch_tanh","hidden_size":1152,
  "intermediate_size":6912,"max_position_embeddings":32768,"num_attention_heads":4,"num_hidden_layers":26,"num_key_value_heads":1,
  "query_pre_attn_scalar":256,"rms_norm_eps":1e-06,"rope_local_base_freq":10000,"rope_scaling":null,"rope_theta":1000000,"sliding_window":512,
  "sliding_window_pattern":6,"vocab_size":262144})"));
const json kQwen3 =
    model("qwen3", "Qwen3ForCausalLM", json::parse(R"({"use_sliding_window":true,"sliding_window":1024,"max_window_layers":12})"));
const json kQwen3Moe = model("qwen3_moe", "Qwen3MoeForCausalLM", json::parse(R"({"attention_bias":false,"bos_token_id":151643,
  "decoder_sparse_step":1,"eos_token_id":151645,"head_dim":128,"hidden_act":"silu","intermediate_size":6144,"max_position_embeddings":40960,
  "max_window_layers":48,"mlp_only_layers":[],"moe_intermediate_size":768,"norm_topk_prob":true,"num_attention_heads":32,"num_experts":128,
  "num_experts_per_tok":8,"num_hidden_layers":48,"output_router_logits":false,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":1000000.0,
  "router_aux_loss_coef":0.001,"sliding_window":null,"tie_word_embeddings":false,"use_sliding_window":false,"vocab_size":151936})"));
const json kMixtral = model("mixtral", "MixtralForCausalLM", json::parse(R"({"hidden_size":4096,"intermediate_size":14336,
  "num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":32768,"num_experts_per_tok":2,
  "num_local_experts":8,"output_router_logits":false,"rope_theta":1000000.0,"router_aux_loss_coef":0.02,"sliding_window":null})"));
const json kGptOss = model("gpt_oss", "GptOssForCausalLM", json::parse(R"({"attention_bias":true,"bos_token_id":null,"eos_token_id":200002,
  "experts_per_token":4,"head_dim":64,"hidden_act":"silu","hidden_size":2880,"initial_context_length":4096,"intermediate_size":2880,
  "max_position_embeddings":131072,"num_attention_heads":64,"num_experts_per_tok":4,"num_hidden_layers":24,"num_key_value_heads":8,
  "num_local_experts":32,"output_router_logits":false,"pad_token_id":199999,"quantization_config":{"modules_to_not_convert":
  ["model.layers.*.self_attn"],"quant_method":"mxfp4"},"rope_scaling":{"beta_fast":32.0,"beta_slow":1.0,"factor":32.0,
  "original_max_position_embeddings":4096,"rope_type":"yarn","truncate":false},"rope_theta":150000,"router_aux_loss_coef":0.9,
  "sliding_window":128,"swiglu_limit":7.0,"tie_word_embeddings":false,"vocab_size":201088})"));
const json kQwen3Small =
    model("qwen3", "Qwen3ForCausalLM", json::parse(R"({"attention_bias":false,"bos_token_id":151643,"eos_token_id":151645,
  "head_dim":128,"hidden_size":1024,"intermediate_size":3072,"max_position_embeddings":40960,"max_window_layers":28,"num_attention_heads":16,
  "num_hidden_layers":28,"num_key_value_heads":8,"rms_norm_eps":1e-06,"rope_scaling":null,"rope_theta":1000000,"sliding_window":null,
  "tie_word_embeddings":true,"use_sliding_window":false,"vocab_size":151936})"));
const json kOlmo3 = model("olmo3", "Olmo3ForCausalLM", json::parse(R"({"bos_token_id":null,"eos_token_id":100257,"pad_token_id":100277,
  "hidden_size":4096,"intermediate_size":11008,"max_position_embeddings":65536,"num_attention_heads":32,"num_hidden_layers":32,
  "num_key_value_heads":32,"rms_norm_eps":1e-06,"rope_scaling":{"attention_factor":1.2079441541679836,"beta_fast":32.0,"beta_slow":1.0,
  "factor":8.0,"original_max_position_embeddings":8192,"rope_type":"yarn"},"rope_theta":500000,"sliding_window":4096,"vocab_size":100278})"));
// The published 4B model leaves out what its class has.
const json kGemma3Images =
    json::parse(R"({"architectures":["Gemma3ForConditionalGeneration"],"boi_token_index":255999,"eoi_token_index":256000,
  "eos_token_id":[1,106],"image_token_index":262144,"initializer_range":0.02,"mm_tokens_per_image":256,"model_type":"gemma3",
  "text_config":{"hidden_size":2560,"intermediate_size":10240,"model_type":"gemma3_text","num_hidden_layers":34,
  "rope_scaling":{"factor":8.0,"rope_type":"linear"},"sliding_window":1024},"torch_dtype":"bfloat16","vision_config":{"hidden_size":1152,
  "image_size":896,"intermediate_size":4304,"model_type":"siglip_vision_model","num_attention_heads":16,"num_hidden_layers":27,"patch_size":14,
  "vision_use_head":false}})");
const json kMinistral3Images =
    json::parse(R"({"architectures":["Mistral3ForConditionalGeneration"],"dtype":"bfloat16","image_token_index":10,
  "model_type":"mistral3","multimodal_projector_bias":false,"projector_hidden_act":"gelu","spatial_merge_size":2,"text_config":{
  "attention_dropout":0.0,"head_dim":128,"hidden_act":"silu","hidden_size":3072,"initializer_range":0.02,"intermediate_size":9216,
  "max_position_embeddings":262144,"model_type":"ministral3","num_attention_heads":32,"num_hidden_layers":26,"num_key_value_heads":8,
  "rms_norm_eps":1e-05,"rope_parameters":{"beta_fast":32.0,"beta_slow":1.0,"factor":16.0,"llama_4_scaling_beta":0.1,"mscale":1.0,
  "mscale_all_dim":1.0,"original_max_position_embeddings":16384,"rope_theta":1000000.0,"rope_type":"yarn","type":"yarn"},
  "sliding_window":null,"tie_word_embeddings":true,"use_cache":true,"vocab_size":131072},"vision_config":{"model_type":"pixtral"},
  "vision_feature_layer":-1})");
const json kLlama = model("llama", "LlamaForCausalLM", json::object());

ModelConfig parse(const json& config) { return parse_model_config(config.dump(), "folder/config.json"); }
json with(json config, const json& changes) {
  config.update(changes);
  return config;
}

TEST(FamilyConfig, published_files_are_the_presets) {
  for (const auto& [file, name] : {std::pair{kMistral, "mistral-7b"},
                                   {kGranite, "granite-3.3-2b"},
                                   {kSmolLm3, "smollm3-3b"},
                                   {kOlmo2, "olmo2-1b"},
                                   {kPhi3, "phi-3-mini"},
                                   {kQwen3Small, "qwen3-0.6b"},
                                   {kQwen3Moe, "qwen3-30b-a3b"},
                                   {kMixtral, "mixtral-8x7b"},
                                   {kGptOss, "gpt-oss-20b"},
                                   {kGemma2, "gemma-2-2b"},
                                   {kMinistral3Images, "ministral-3-3b"},
                                   {kOlmo3, "olmo3-7b"},
                                   {kGemma3, "gemma-3-1b"}}) {
    ModelConfig expected = preset(name);
    expected.dtype = DType::bf16;
    EXPECT_EQ(parse(file), expected) << name;
  }
  const ModelConfig gemma2 = parse(kGemma2);
  EXPECT_EQ(gemma2.parameter_count(), 2614341888);
  EXPECT_EQ(gemma2.attention_soft_cap, 50);
  EXPECT_EQ(gemma2.logits_soft_cap, 30);
  EXPECT_TRUE(gemma2.has_window(0) && !gemma2.has_window(1));
}

TEST(FamilyConfig, mixtures_of_experts) {
  const ModelConfig qwen = parse(kQwen3Moe), mixtral = parse(kMixtral), gpt_oss = parse(kGptOss);
  EXPECT_EQ(qwen.parameter_count(), 30532122624);
  EXPECT_EQ(mixtral.parameter_count(), 46702792704);
  EXPECT_EQ(gpt_oss.parameter_count(), 20914757184);
  EXPECT_TRUE(gpt_oss.has_window(0) && !gpt_oss.has_window(1) && gpt_oss.window == 128);
  EXPECT_EQ(parse(with(kQwen3Moe, {{"num_local_experts", 128}})), qwen);  // both spellings, as transformers 5 may leave them
  EXPECT_EQ(mixtral.router_loss, 0);                                      // output_router_logits is false
  EXPECT_EQ(parse(with(kMixtral, {{"output_router_logits", true}})).router_loss, 0.02);
  // Both classes have 8 key/value heads where the file has none; Mixtral's has as many as heads where it has null.
  for (json file : {kMixtral, kGptOss}) {
    file.erase("num_key_value_heads");
    EXPECT_EQ(parse(file).kv_heads, 8) << file["model_type"];
  }
  EXPECT_EQ(parse(with(kMixtral, {{"num_key_value_heads", nullptr}})).kv_heads, 32);
  const ModelConfig sparse = parse(with(kQwen3Moe, {{"decoder_sparse_step", 2}, {"mlp_only_layers", {1, 4}}}));
  EXPECT_EQ(sparse.layers_with_experts(), 23);
  EXPECT_TRUE(!sparse.has_experts(0) && !sparse.has_experts(1) && sparse.has_experts(3) && !sparse.has_experts(4) && sparse.has_experts(5));
}

TEST(FamilyConfig, round_trips) {
  for (const json& file : {kQwen3Moe, kMixtral, kGptOss, with(kQwen3Moe, {{"mlp_only_layers", {0, 7}}, {"norm_topk_prob", false}}),
                           with(kQwen3Moe, {{"use_sliding_window", true}, {"sliding_window", 512}}), kMistral, kGranite, kSmolLm3, kOlmo2,
                           kOlmo3, kPhi3, kGemma2, kGemma3, kQwen3, kGemma3Images, kMinistral3Images})
    EXPECT_EQ(parse_model_config(model_config_json(parse(file))), parse(file)) << file["model_type"];
  for (const json& scaling :
       {json{{"type", "linear"}, {"factor", 2}}, json{{"type", "dynamic"}, {"factor", 2.5}},
        json{{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 1024}, {"beta_fast", 16}, {"truncate", false}},
        json{{"rope_type", "longrope"}, {"short_factor", json(std::vector(64, 1.5))}, {"long_factor", json(std::vector(64, 2.5))}}}) {
    const ModelConfig config = parse(with(kLlama, {{"rope_scaling", scaling}}));
    EXPECT_EQ(parse_model_config(model_config_json(config)), config) << scaling;
  }
}

// Phi-3-mini-128k: an older name of longrope, an attention factor from the two contexts, a window that is never reached.
TEST(FamilyConfig, phi3_longrope) {
  const json factors = json(std::vector(48, 1.25));
  const ModelConfig c = parse(with(kPhi3, {{"max_position_embeddings", 131072},
                                           {"sliding_window", 262144},
                                           {"rope_scaling", {{"type", "su"}, {"short_factor", factors}, {"long_factor", factors}}}}));
  EXPECT_EQ(c.rope_scaling.kind, RopeScaling::Kind::longrope);
  EXPECT_EQ(c.rope_scaling.original_context, 4096);
  EXPECT_NEAR(c.rope_scaling.attention_factor, std::sqrt(1 + std::log(32.0) / std::log(4096.0)), 1e-15);
  EXPECT_EQ(c.window, 0);
  EXPECT_EQ(parse_model_config(model_config_json(c)), c);
  EXPECT_EQ(parse(with(kPhi3, {{"partial_rotary_factor", 0.75}})).rotary_dims(), 72);
  json saved_again = with(kPhi3, {{"rope_scaling", {{"short_factor", factors}, {"long_factor", factors}}}});
  const ModelConfig once = parse(with(saved_again, {{"rope_scaling", with(saved_again["rope_scaling"], {{"type", "su"}})}}));
  saved_again["rope_scaling"].update({{"type", "su"}, {"rope_type", "longrope"}});
  EXPECT_EQ(parse(saved_again), once);
}

// transformers 4 accepts three keys of rope_scaling alone; a declared context needs the file's attention factor.
TEST(FamilyConfig, phi3_longrope_is_written_as_published) {
  const json factors = json(std::vector(48, 1.25)), three = {{"type", "longrope"}, {"short_factor", factors}, {"long_factor", factors}};
  ModelConfig c = parse(with(kPhi3, {{"max_position_embeddings", 131072}, {"rope_scaling", three}}));
  EXPECT_EQ(json::parse(model_config_json(c))["rope_scaling"], three);
  declare_context(c, 4096);
  const json declared = json::parse(model_config_json(c))["rope_scaling"];
  EXPECT_EQ(declared["factor"], 32);
  EXPECT_NEAR(declared["attention_factor"].get<double>(), std::sqrt(1 + std::log(32.0) / std::log(4096.0)), 1e-15);
  EXPECT_EQ(parse_model_config(model_config_json(c)), c);
}

// Layers with a window have a base of their own and no scaling: the published spelling means 500000 for both.
TEST(FamilyConfig, olmo3_positions) {
  ModelConfig c = parse(kOlmo3);
  EXPECT_EQ(c.rope_scaling.kind, RopeScaling::Kind::yarn);
  EXPECT_EQ(c.local_rope_theta, 500000);
  const json published = json::parse(model_config_json(c));
  EXPECT_FALSE(published.contains("rope_parameters"));
  EXPECT_EQ(published["rope_theta"], 500000);
  EXPECT_EQ(published["rope_scaling"]["factor"], 8);
  c.local_rope_theta = 10000;
  const json nested = json::parse(model_config_json(c));
  EXPECT_FALSE(nested.contains("rope_theta") || nested.contains("rope_scaling"));
  EXPECT_EQ(nested["rope_parameters"]["sliding_attention"]["rope_theta"], 10000);
  EXPECT_EQ(parse_model_config(model_config_json(c)), c);
}

TEST(FamilyConfig, gpt_oss_positions_of_a_file_without_them) {
  json absent = kGptOss;
  absent.erase("rope_scaling");
  EXPECT_EQ(parse(absent), parse(kGptOss));
  EXPECT_EQ(parse(with(kGptOss, {{"rope_scaling", nullptr}})).rope_scaling.kind, RopeScaling::Kind::none);
}

TEST(FamilyConfig, text_models_of_models_of_text_and_images) {
  const ModelConfig gemma = parse(kGemma3Images);
  EXPECT_EQ(gemma.architecture, Architecture::gemma3);
  EXPECT_EQ(gemma.parameter_count(), 3880263168);
  EXPECT_EQ(gemma.vocab_size, 262208);
  EXPECT_EQ(gemma.heads, 8);
  EXPECT_EQ(gemma.kv_heads, 4);
  EXPECT_EQ(gemma.window, 1024);
  EXPECT_EQ(gemma.rope_theta, 1e6);
  EXPECT_EQ(gemma.rope_scaling.factor, 8);
  EXPECT_EQ(gemma.dtype, DType::bf16);
  EXPECT_EQ(gemma.bos_id, 2);
  EXPECT_EQ(gemma.eos_ids, (std::vector<int64_t>{1, 106}));
  EXPECT_TRUE(gemma.tie_embeddings);
  EXPECT_EQ(json::parse(model_config_json(gemma))["model_type"], "gemma3_text");

  const ModelConfig ministral = parse(kMinistral3Images);
  EXPECT_EQ(ministral.architecture, Architecture::ministral3);
  EXPECT_EQ(ministral.rope_scaling.attention_factor, 1);
  EXPECT_EQ(ministral.query_growth, 0.1);
  EXPECT_TRUE(ministral.tie_embeddings);
  EXPECT_EQ(json::parse(model_config_json(ministral))["architectures"][0], "Ministral3ForCausalLM");

  json mistral = with(kMinistral3Images, {{"text_config", kMistral}, {"tie_word_embeddings", true}});
  mistral["text_config"].erase("model_type");
  EXPECT_EQ(parse(mistral).architecture, Architecture::mistral);
  EXPECT_TRUE(parse(mistral).tie_embeddings);
}

TEST(FamilyConfig, windows) {
  EXPECT_EQ(parse(with(kMistral, {{"sliding_window", nullptr}})).window, 0);
  json absent = kMistral;
  absent.erase("sliding_window");
  EXPECT_EQ(parse(absent).window, 4096);  // as in transformers
  const ModelConfig qwen = parse(kQwen3);
  EXPECT_EQ(qwen.window, 1024);
  EXPECT_TRUE(!qwen.has_window(11) && qwen.has_window(12));
  EXPECT_EQ(parse(with(kQwen3, {{"max_window_layers", 16}})).window, 0);
  EXPECT_EQ(parse(with(kQwen3, {{"use_sliding_window", false}})).window, 0);
}

// Its class in transformers has no layer_types and no max_window_layers, and divides where head_dim is absent.
TEST(FamilyConfig, qwen3_moe_is_not_qwen3) {
  json file = with(kQwen3Moe, {{"use_sliding_window", true}, {"sliding_window", 4096}});
  EXPECT_EQ(parse(file).window, 4096);
  EXPECT_TRUE(parse(file).window_layers.empty());
  const json written = json::parse(model_config_json(parse(file)));
  EXPECT_TRUE(written["use_sliding_window"] == true && written["sliding_window"] == 4096 && !written.contains("layer_types"));
  file.erase("head_dim");
  EXPECT_EQ(parse(file).head_dim, 64);
  ModelConfig some = parse(file);
  some.window_layers = std::vector<bool>(48, true);
  some.window_layers[3] = false;
  EXPECT_THROW(model_config_json(some), Error);
}

void refuses(const json& config, ErrorCode code, const std::string& reason) {
  try {
    parse(config);
    ADD_FAILURE() << "accepted: " << reason;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(std::string(error.what()).substr(0, 20 + reason.size()), "folder/config.json: " + reason);
  }
}

TEST(FamilyConfig, errors_name_the_key) {
  const auto bad = ErrorCode::bad_file;
  refuses(with(kMistral, {{"sliding_window", 40000}}), bad,
          "$.sliding_window is 40000, more than the context, max_position_embeddings 32768");
  refuses(with(kMistral, {{"sliding_window", 0}}), bad, "$.sliding_window is 0");
  refuses(with(kGemma2, {{"final_logit_softcapping", 0}}), bad,
          "$.final_logit_softcapping is 0, expected a finite f32 above 0, or null for none");
  refuses(with(kGemma2, {{"final_logit_softcapping", 1e-50}}), bad, "$.final_logit_softcapping is 1e-50, expected a finite f32 above 0");
  refuses(with(kGemma2, {{"attn_logit_softcapping", -1}}), bad, "$.attn_logit_softcapping is -1");
  refuses(with(kGemma2, {{"layer_types", {"full_attention"}}}), bad, "$.layer_types has 1 elements, expected one for each of 26 layers");
  refuses(with(kGemma2, {{"sliding_window", nullptr}}), bad, "$ has layers with sliding_attention, but no sliding_window is given");
  refuses(with(kGranite, {{"residual_multiplier", 0}}), bad, "$.residual_multiplier is 0");
  refuses(with(kSmolLm3, {{"no_rope_layers", {1, 0}}}), bad, "$.no_rope_layers has 2 elements, expected one for each of 36 layers");
  refuses(with(kLlama, {{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}}), bad, "$.rope_scaling.factor is 0.5, expected 1 or more");
  refuses(with(kLlama, {{"rope_scaling", {{"type", "longrope"}, {"short_factor", {1}}, {"long_factor", {1}}}}}), bad,
          "$.rope_scaling.short_factor has 1 elements, expected one for each of 64 rotated pairs");
  refuses(with(kQwen3Moe, {{"num_experts_per_tok", 129}}), bad, "$.num_experts_per_tok is 129, but there are 128 experts");
  refuses(with(kQwen3Moe, {{"mlp_only_layers", {48}}}), bad, "$.mlp_only_layers[0] is 48");
  refuses(with(kMixtral, {{"num_local_experts", 0}}), bad, "$.num_local_experts is 0");
  refuses(with(kQwen3Moe, {{"num_experts", 2000}}), bad, "$.num_experts is 2000, expected 1 to 1024");
  for (const json& file : {kMixtral, kGptOss})
    refuses(with(file, {{"num_experts", 16}}), bad, "$.num_experts is 16 and $.num_local_experts is ");
  refuses(with(kMixtral, {{"router_aux_loss_coef", -1}}), bad, "$.router_aux_loss_coef is -1, expected zero or more");
  refuses(with(kGptOss, {{"swiglu_limit", 0}}), bad, "$.swiglu_limit is 0, expected a number above 0");
  const auto no = ErrorCode::unsupported;
  refuses(with(kMixtral, {{"router_jitter_noise", 0.1}}), no, "$.router_jitter_noise is 0.1; only 0 is supported");
  refuses(with(kGptOss, {{"quantization_config", {{"quant_method", "fp8"}}}}), no, "$.quantization_config is given");
  refuses(with(kMixtral, {{"quantization_config", {{"quant_method", "mxfp4"}}}}), no, "$.quantization_config is given");
  refuses(with(kGemma3, {{"attn_logit_softcapping", 50}}), no, "$.attn_logit_softcapping is 50");
  refuses(with(kGemma3, {{"use_bidirectional_attention", true}}), no, "$.use_bidirectional_attention is true");
  refuses(with(kGemma2, {{"layer_types", {"chunked_attention"}}}), no, "$.layer_types[0] is 'chunked_attention'");
  refuses(with(kPhi3, {{"resid_pdrop", 0.1}}), no, "$.resid_pdrop is 0.1");
  refuses(with(kPhi3, {{"rope_scaling", {{"type", "linear"}, {"factor", 2}}}}), no, "$.rope_scaling.type is 'linear'");
  refuses(with(kMistral, {{"auto_map", {{"AutoConfig", "x.Y"}}}}), no, "$.auto_map is given");
  refuses(with(kQwen3Moe, {{"use_sliding_window", true}, {"layer_types", {"full_attention"}}}), no,
          "$.layer_types[0] is 'full_attention'; with use_sliding_window every layer of this family has the window");
  for (const json& file : {kOlmo3, kGemma3})
    refuses(with(file, {{"rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 500000}, {"factor", 8}}}}), no,
            "$.rope_parameters has neither full_attention nor sliding_attention");
}

TEST(FamilyConfig, errors_in_a_text_config_name_its_keys) {
  const auto in_text = [](json file, const json& changes) {
    file["text_config"].update(changes);
    return file;
  };
  const auto bad = ErrorCode::bad_file, no = ErrorCode::unsupported;
  refuses(in_text(kGemma3Images, {{"hidden_size", 0}}), bad, "$.text_config.hidden_size is 0");
  refuses(in_text(kGemma3Images, {{"use_bidirectional_attention", true}}), no, "$.text_config.use_bidirectional_attention is true");
  refuses(in_text(kGemma3Images, {{"model_type", "llama"}}), no,
          "$.text_config.model_type is 'llama'; the text models of gemma3 that are supported are gemma3_text");
  refuses(in_text(kMinistral3Images, {{"model_type", "gemma3_text"}}), no,
          "$.text_config.model_type is 'gemma3_text'; the text models of mistral3 that are supported are mistral and ministral3");
  refuses(with(kMinistral3Images, {{"quantization_config", {{"quant_method", "fp8"}}}}), no, "$.quantization_config is given");
  refuses(with(kGemma3Images, {{"architectures", {"Gemma3ForSequenceClassification"}}}), no, "$.architectures is ");
  refuses(with(kGemma3Images, {{"text_config", 3}}), bad, "$.text_config is 3, expected an object");
  refuses(with(kGemma3Images, {{"text_config", nullptr}}), no, "$.model_type is 'gemma3', a model of text and images");
}

}  // namespace
}  // namespace weft
