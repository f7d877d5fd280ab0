#include "weft/models/config.h"

#include <cmath>
#include <map>

#include "weft/ops/causal_attention/causal_attention.h"

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

// The shape of Llama 3.2 1B, whose RoPE scaling beyond 8192 positions is left out.
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

ModelConfig gpt2_124m() {
  ModelConfig c = gpt2(50257, 768, 12, 12, 1024);
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = 0.1f;
  c.bos_id = 50256;
  c.eos_ids = {50256};
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
      {"shakespeare-char", gpt2(65, 384, 6, 6, 256)},
  };
  return all;
}

void check_numbers(const ModelConfig& c, std::string_view where) {
  for (auto [name, p] : {std::pair<const char*, float>{"embedding_dropout", c.embedding_dropout},
                         {"attention_dropout", c.attention_dropout},
                         {"residual_dropout", c.residual_dropout}})
    check(p >= 0 && p < 1, where, name, " is ", p, ", expected zero or more and below 1");
  check(std::isfinite(c.norm_eps) && c.norm_eps >= 0, where, "norm_eps is ", c.norm_eps, ", expected zero or more");
  check(std::isfinite(c.initializer_range) && c.initializer_range >= 0, where, "initializer_range is ", c.initializer_range,
        ", expected zero or more");
}

}  // namespace

std::string_view name(Architecture architecture) {
  switch (architecture) {
    case Architecture::llama: return "llama";
    case Architecture::qwen2: return "qwen2";
    case Architecture::qwen3: return "qwen3";
    case Architecture::gpt2: return "gpt2";
  }
  return "unknown architecture";
}

int64_t ModelConfig::parameter_count() const {
  const int64_t C = hidden_size, q = heads * head_dim, kv = kv_heads * head_dim, F = intermediate_size;
  const int64_t head = tie_embeddings ? 0 : vocab_size * C;
  if (architecture == Architecture::gpt2)
    return (vocab_size + max_positions) * C + head + layers * (4 * C * C + 4 * C + 2 * C * F + F + C + 4 * C) + 2 * C;
  const int64_t attention =
      2 * C * q + 2 * C * kv + (qkv_bias ? q + 2 * kv : 0) + (attention_out_bias ? C : 0) + (qk_norm ? 2 * head_dim : 0);
  const int64_t mlp = 3 * C * F + (mlp_bias ? 2 * F + C : 0);
  return vocab_size * C + head + layers * (attention + mlp + 2 * C) + C;
}

void check_config(const ModelConfig& c, std::string_view where) {
  constexpr int64_t kMost = int64_t(1) << 31;  // ids and positions are 32-bit
  constexpr int64_t kMostLayers = 4096;        // each is objects of its own, whatever its size
  for (auto [name, value] : {std::pair<const char*, int64_t>{"vocab_size", c.vocab_size},
                             {"hidden_size", c.hidden_size},
                             {"layers", c.layers},
                             {"heads", c.heads},
                             {"kv_heads", c.kv_heads},
                             {"head_dim", c.head_dim},
                             {"intermediate_size", c.intermediate_size},
                             {"max_positions", c.max_positions}})
    check(1 <= value && value < kMost, where, name, " is ", value, ", expected 1 to ", kMost - 1);
  check(c.layers <= kMostLayers, where, "layers is ", c.layers, ", expected 1 to ", kMostLayers);
  check(c.heads % c.kv_heads == 0, where, "heads is ", c.heads, ", expected a multiple of kv_heads ", c.kv_heads);
  check(c.head_dim <= CausalAttentionArgs::kMostHeadDim, where, "head_dim is ", c.head_dim, ", at most ", CausalAttentionArgs::kMostHeadDim,
        " are supported");
  check_numbers(c, where);
  if (c.architecture == Architecture::gpt2) {
    check(c.heads == c.kv_heads && c.heads * c.head_dim == c.hidden_size, where,
          "GPT-2 needs as many key/value heads as query heads, and heads x head_dim = hidden_size; got ", c.heads, " and ", c.kv_heads,
          " heads of ", c.head_dim, ", hidden_size ", c.hidden_size);
  } else {
    check(c.head_dim % 2 == 0, where, "head_dim is ", c.head_dim, ", expected an even number: RoPE rotates pairs");
    rope_frequencies(c.head_dim, c.rope_theta, c.rope_scaling);
  }
}

ModelConfig preset(std::string_view name) {
  const auto found = presets().find(name);
  if (found != presets().end()) return found->second;
  std::string known;
  for (const std::string& each : preset_names()) known += (known.empty() ? "" : ", ") + each;
  fail(ErrorCode::invalid_argument, "preset", "'", name, "' is neither a folder nor a known model; expected a model folder, or one of ",
       known);
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : presets()) names.push_back(name);
  return names;
}

}  // namespace weft
