// Shapes of published models, for new models and benchmarks.
#include <cmath>
#include <map>

#include "weft/base/check.h"
#include "weft/models/config.h"

namespace weft {
namespace {

ModelConfig llama(int64_t vocab, int64_t hidden, int64_t layers, int64_t heads, int64_t kv_heads, int64_t intermediate) {
  ModelConfig c;
  c.vocab_size = vocab;
  c.hidden_size = hidden;
  c.layers = layers;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = hidden / heads;
  c.intermediate_size = intermediate;
  return c;
}

ModelConfig gpt2(int64_t vocab, int64_t hidden, int64_t layers, int64_t heads, int64_t positions) {
  ModelConfig c = llama(vocab, hidden, layers, heads, heads, 4 * hidden);
  c.architecture = Architecture::gpt2;
  c.max_positions = positions;
  c.activation = HiddenActivation::gelu_tanh;
  c.tie_embeddings = c.qkv_bias = c.attention_out_bias = c.mlp_bias = true;
  return c;
}

ModelConfig llama_tiny() {
  ModelConfig c = llama(512, 64, 2, 4, 2, 176);
  c.max_positions = 256;
  c.tie_embeddings = true;
  c.bos_id = 1;
  c.eos_ids = {2};
  return c;
}

ModelConfig smollm2_135m() {
  ModelConfig c = llama(49152, 576, 30, 9, 3, 1536);
  c.max_positions = 8192;
  c.rope_theta = 100000;
  c.tie_embeddings = true;
  c.bos_id = 0;
  c.eos_ids = {0};
  return c;
}

// The shape of Llama 3.2 1B, without its RoPE scaling beyond 8192 positions.
ModelConfig llama_1b() {
  ModelConfig c = llama(128256, 2048, 16, 32, 8, 8192);
  c.max_positions = 8192;
  c.rope_theta = 500000;
  c.tie_embeddings = true;
  c.bos_id = 128000;
  c.eos_ids = {128001};
  return c;
}

ModelConfig llama_3_2_1b() {
  ModelConfig c = llama_1b();
  c.max_positions = 131072;
  c.rope_scaling = {RopeScaling::Kind::llama3, 32, 1, 4, 8192};
  return c;
}

ModelConfig qwen2_5(int64_t hidden, int64_t layers, int64_t heads, int64_t intermediate, int64_t positions) {
  ModelConfig c = llama(151936, hidden, layers, heads, 2, intermediate);
  c.architecture = Architecture::qwen2;
  c.max_positions = positions;
  c.norm_eps = 1e-6;
  c.rope_theta = 1000000;
  c.tie_embeddings = c.qkv_bias = true;
  c.bos_id = 151643;
  c.eos_ids = {151643};
  return c;
}

ModelConfig qwen3_0_6b() {
  ModelConfig c = llama(151936, 1024, 28, 16, 8, 3072);
  c.architecture = Architecture::qwen3;
  c.head_dim = 128;
  c.qk_norm = c.tie_embeddings = true;
  c.max_positions = 40960;
  c.norm_eps = 1e-6;
  c.rope_theta = 1000000;
  c.bos_id = 151643;
  c.eos_ids = {151645};
  return c;
}

ModelConfig gpt2_124m() {
  ModelConfig c = gpt2(50257, 768, 12, 12, 1024);
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = 0.1f;
  c.bos_id = 50256;
  c.eos_ids = {50256};
  return c;
}

// Mistral 7B v0.1.
ModelConfig mistral_7b() {
  ModelConfig c = llama(32000, 4096, 32, 32, 8, 14336);
  c.architecture = Architecture::mistral;
  c.max_positions = 32768;
  c.window = 4096;
  c.bos_id = 1;
  c.eos_ids = {2};
  return c;
}

// The text model of Ministral 3 3B.
ModelConfig ministral_3_3b() {
  ModelConfig c = llama(131072, 3072, 26, 32, 8, 9216);
  c.architecture = Architecture::ministral3;
  c.head_dim = 128;
  c.max_positions = 262144;
  c.rope_theta = 1000000;
  c.rope_scaling = {.kind = RopeScaling::Kind::yarn, .factor = 16, .original_context = 16384};
  c.query_growth = 0.1;
  c.tie_embeddings = true;
  c.pad_id = 11;
  return c;
}

ModelConfig granite_3_3_2b() {
  ModelConfig c = llama(49159, 2048, 40, 32, 8, 8192);
  c.architecture = Architecture::granite;
  c.max_positions = 131072;
  c.rope_theta = 10000000;
  c.tie_embeddings = true;
  c.embedding_scale = 12;
  c.attention_scale = 0.015625;
  c.residual_scale = 0.22;
  c.logits_divisor = 8;
  c.bos_id = c.pad_id = 0;
  c.eos_ids = {0};
  return c;
}

ModelConfig smollm3_3b() {
  ModelConfig c = llama(128256, 2048, 36, 16, 4, 11008);
  c.architecture = Architecture::smollm3;
  c.max_positions = 65536;
  c.norm_eps = 1e-6;
  c.rope_theta = 5000000;
  c.tie_embeddings = true;
  for (int64_t layer = 0; layer < c.layers; ++layer) c.rotary_layers.push_back(layer % 4 != 3);
  c.pad_id = 128004;
  c.eos_ids = {128001};
  return c;
}

ModelConfig olmo2_1b() {
  ModelConfig c = llama(100352, 2048, 16, 16, 16, 8192);
  c.architecture = Architecture::olmo2;
  c.norms = NormPlaces::after;
  c.qk_norm = c.qk_norm_whole = true;
  c.max_positions = 4096;
  c.norm_eps = 1e-6;
  c.rope_theta = 500000;
  c.pad_id = 100277;
  c.eos_ids = {100257};
  return c;
}

ModelConfig olmo3_7b() {
  ModelConfig c = llama(100278, 4096, 32, 32, 32, 11008);
  c.architecture = Architecture::olmo3;
  c.norms = NormPlaces::after;
  c.qk_norm = c.qk_norm_whole = true;
  c.max_positions = 65536;
  c.norm_eps = 1e-6;
  c.rope_theta = c.local_rope_theta = 500000;
  c.rope_scaling = {.kind = RopeScaling::Kind::yarn, .factor = 8, .original_context = 8192, .attention_factor = 1 + 0.1 * std::log(8.0)};
  c.window = 4096;
  for (int64_t layer = 0; layer < c.layers; ++layer) c.window_layers.push_back(layer % 4 != 3);
  c.pad_id = 100277;
  c.eos_ids = {100257};
  return c;
}

// Phi-3-mini-4k.
ModelConfig phi_3_mini() {
  ModelConfig c = llama(32064, 3072, 32, 32, 32, 8192);
  c.architecture = Architecture::phi3;
  c.fused_projections = true;
  c.max_positions = 4096;
  c.window = 2047;
  c.bos_id = 1;
  c.pad_id = 32000;
  c.eos_ids = {32000};
  return c;
}

ModelConfig gemma_2_2b() {
  ModelConfig c = llama(256000, 2304, 26, 8, 4, 9216);
  c.architecture = Architecture::gemma2;
  c.head_dim = 256;
  c.norms = NormPlaces::around;
  c.norm_adds_one = c.tie_embeddings = true;
  c.activation = HiddenActivation::gelu_tanh;
  c.max_positions = 8192;
  c.norm_eps = 1e-6;
  c.window = 4096;
  for (int64_t layer = 0; layer < c.layers; ++layer) c.window_layers.push_back(layer % 2 == 0);
  c.attention_soft_cap = 50;
  c.logits_soft_cap = 30;
  c.embedding_scale = std::sqrt(2304.0);
  c.attention_scale = 1.0 / 16;
  c.bos_id = 2;
  c.pad_id = 0;
  c.eos_ids = {1};
  return c;
}

ModelConfig gemma_3(int64_t hidden, int64_t layers, int64_t intermediate) {
  ModelConfig c = llama(262144, hidden, layers, 4, 1, intermediate);
  c.architecture = Architecture::gemma3;
  c.head_dim = 256;
  c.norms = NormPlaces::around;
  c.norm_adds_one = c.qk_norm = c.tie_embeddings = true;
  c.activation = HiddenActivation::gelu_tanh;
  c.max_positions = 32768;
  c.norm_eps = 1e-6;
  c.rope_theta = 1000000;
  c.local_rope_theta = 10000;
  c.window = 512;
  for (int64_t layer = 0; layer < layers; ++layer) c.window_layers.push_back(layer % 6 != 5);
  c.embedding_scale = std::sqrt(double(hidden));
  c.attention_scale = 1.0 / 16;
  c.bos_id = 2;
  c.pad_id = 0;
  c.eos_ids = {1};
  return c;
}

// Qwen3 with experts of size 768 in every layer.
ModelConfig qwen3_moe(int64_t hidden, int64_t layers, int64_t heads, int64_t kv_heads, int64_t experts, int64_t per_token) {
  ModelConfig c = llama(151936, hidden, layers, heads, kv_heads, 3 * hidden);
  c.architecture = Architecture::qwen3_moe;
  c.head_dim = 128;
  c.qk_norm = true;
  c.experts = experts;
  c.experts_per_token = per_token;
  c.expert_size = 768;
  c.max_positions = 40960;
  c.norm_eps = 1e-6;
  c.rope_theta = 1000000;
  c.bos_id = 151643;
  c.eos_ids = {151645};
  return c;
}

ModelConfig mixtral_8x7b() {
  ModelConfig c = llama(32000, 4096, 32, 32, 8, 14336);
  c.architecture = Architecture::mixtral;
  c.experts = 8;
  c.experts_per_token = 2;
  c.expert_size = 14336;
  c.max_positions = 32768;
  c.rope_theta = 1000000;
  c.bos_id = 1;
  c.eos_ids = {2};
  return c;
}

ModelConfig gpt_oss_20b() {
  ModelConfig c = llama(201088, 2880, 24, 64, 8, 2880);
  c.architecture = Architecture::gpt_oss;
  c.head_dim = 64;
  c.experts = 32;
  c.experts_per_token = 4;
  c.expert_size = 2880;
  c.clamped_experts = c.attention_sinks = c.qkv_bias = c.attention_out_bias = true;
  c.max_positions = 131072;
  c.rope_theta = 150000;
  c.rope_scaling = {.kind = RopeScaling::Kind::yarn, .factor = 32, .original_context = 4096, .attention_factor = 1 + 0.1 * std::log(32.0)};
  c.rope_scaling.truncate = false;
  c.window = 128;
  for (int64_t layer = 0; layer < c.layers; ++layer) c.window_layers.push_back(layer % 2 == 0);
  c.pad_id = 199999;
  c.eos_ids = {200002};
  return c;
}

const std::map<std::string, ModelConfig, std::less<>>& presets() {
  static const std::map<std::string, ModelConfig, std::less<>> all = {
      {"llama-tiny", llama_tiny()},
      {"gpt2-124m", gpt2_124m()},
      {"smollm2-135m", smollm2_135m()},
      {"llama-1b", llama_1b()},
      {"llama-3.2-1b", llama_3_2_1b()},
      {"qwen2.5-0.5b", qwen2_5(896, 24, 14, 4864, 32768)},
      {"qwen2.5-1.5b", qwen2_5(1536, 28, 12, 8960, 131072)},
      {"qwen3-0.6b", qwen3_0_6b()},
      {"shakespeare-char", gpt2(65, 384, 6, 6, 256)},
      {"mistral-7b", mistral_7b()},
      {"ministral-3-3b", ministral_3_3b()},
      {"granite-3.3-2b", granite_3_3_2b()},
      {"smollm3-3b", smollm3_3b()},
      {"olmo2-1b", olmo2_1b()},
      {"olmo3-7b", olmo3_7b()},
      {"phi-3-mini", phi_3_mini()},
      {"gemma-2-2b", gemma_2_2b()},
      {"gemma-3-270m", gemma_3(640, 18, 2048)},
      {"gemma-3-1b", gemma_3(1152, 26, 6912)},
      {"qwen3-30b-a3b", qwen3_moe(2048, 48, 32, 4, 128, 8)},
      {"qwen3-moe-1b", qwen3_moe(1024, 12, 16, 4, 32, 4)},  // not published; a small model for benchmarks
      {"mixtral-8x7b", mixtral_8x7b()},
      {"gpt-oss-20b", gpt_oss_20b()},
  };
  return all;
}

}  // namespace

ModelConfig preset(std::string_view name) {
  const auto found = presets().find(name);
  if (found != presets().end()) return found->second;
  std::string known;
  for (const std::string& each : preset_names()) known += (known.empty() ? "" : ", ") + each;
  fail(ErrorCode::invalid_argument, "preset", "'", name, "' is not the name of a shape; expected one of ", known);
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : presets()) names.push_back(name);
  return names;
}

}  // namespace weft
