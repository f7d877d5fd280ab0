#include "weft/models/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "weft/base/check.h"
#include "weft/io/json.h"
#include "weft/models/families/family.h"
#include "weft/models/gguf_config_keys.h"
#include "weft/models/gguf_rope.h"
#include "weft/ops/route/route.h"

namespace weft {
namespace {

using namespace gguf_keys;

// Keys that change the computation and are refused unless the family's table of numbers has them.
constexpr const char* kUnsupported[] = {
    "expert_count",      "attention.sliding_window", "attention.scale", "attention.clamp_kqv",    "attention.max_alibi_bias",
    "logit_scale",       "embedding_scale",          "residual_scale",  "attn_logit_softcapping", "final_logit_softcapping",
    "rope.scale_linear",
};
// For Granite, `finetuned` false turns rotary positions off.
constexpr const char *kCausal = "attention.causal", *kFinetuned = "rope.scaling.finetuned", *kWindowTheta = "rope.freq_base_swa";

// llama.cpp's names of recurrent models, for the error message.
constexpr std::string_view kRecurrent[] = {"qwen3next", "qwen35",    "qwen35moe",  "lfm2",           "lfm2moe",     "granitehybrid",
                                           "jamba",     "falcon-h1", "nemotron_h", "nemotron_h_moe", "kimi-linear", "plamo2",
                                           "mamba",     "mamba2",    "rwkv6",      "rwkv7"};

const GgufFamily& family_of(const Gguf& file) {
  const std::string name = file.text("general.architecture");
  const GgufFamily* family = gguf_family(name);
  if (!family)
    fail(ErrorCode::unsupported, file.path(), "general.architecture is '", shown(name), "'",
         std::ranges::find(kRecurrent, name) == std::end(kRecurrent) ? "" : ", a model with recurrent or convolution layers",
         "; supported are ", gguf_family_names());
  const auto has = [&](const char* key) { return file.find_integer(join(name, ".", key)).value_or(0) > 0; };
  // Mixtral is named "llama" and has experts; OLMo 3 is named "olmo2" and has a window.
  if (family->architecture == Architecture::llama && has(kExperts)) return gguf_family(Architecture::mixtral);
  if (family->architecture == Architecture::olmo2 && has(kWindow)) return gguf_family(Architecture::olmo3);
  // Without yarn and its growth of queries, mistral3 has the maths of Llama.
  if (family->architecture == Architecture::ministral3 &&
      (file.find_number(join(name, ".", kGrowth)).value_or(0) == 0 || file.find_text(join(name, ".", kScalingType)) != "yarn"))
    return *gguf_family(name, Architecture::llama);
  return *family;
}

void refuse_unsupported(const Gguf& file, const GgufFamily& family, const std::string& prefix) {
  for (const char* key : kUnsupported)
    if (const auto value = file.find_number(prefix + key); value && *value != 0 && !has_number(family, key) &&
                                                           !(family.window.read && std::string_view(key) == kWindow) &&
                                                           !(family.experts && std::string_view(key) == kExperts))
      fail(ErrorCode::unsupported, file.path(), prefix, key, " is ", *value, ", which is not supported");
  for (const char* key : {kCausal, kFinetuned})
    if ((key == kCausal || family.architecture == Architecture::granite) && !file.find_boolean(prefix + key).value_or(true))
      fail(ErrorCode::unsupported, file.path(), prefix, key, " is false, which is not supported");
}

// Refuses sizes or a RoPE base that differ in layers with a window. llama.cpp reads such a base for OLMo 3 and ignores it, so results would
// differ from llama.cpp's.
void refuse_other_window_layers(const Gguf& file, const GgufFamily& family, const std::string& prefix, const ModelConfig& c) {
  if (!family.window.written) return;
  for (const char* key : {"attention.key_length_swa", "attention.value_length_swa", "rope.dimension_count_swa"})
    if (const auto size = file.find_integer(prefix + key); size && *size != c.head_dim)
      fail(ErrorCode::unsupported, file.path(), prefix, key, " is ", *size, ", expected the size of a head, ", c.head_dim);
  const auto base = has_number(family, kWindowTheta) ? std::nullopt : file.find_number(prefix + kWindowTheta);
  if (base && shortest_double(*base) != c.rope_theta)
    fail(ErrorCode::unsupported, file.path(), prefix, kWindowTheta, " is ", shortest_double(*base), ", expected rope.freq_base, ",
         c.rope_theta);
}

const Gguf::Entry& tensor_of(const Gguf& file, const char* name) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) fail(ErrorCode::bad_file, file.path(), "has no tensor '", name, "'");
  return found->second;
}

// Clamps a window above the context to the context: converters write such files and llama.cpp loads them. In a config.json it is an error,
// because there it is more likely a mistake.
int64_t read_window(const Gguf& file, const std::string& prefix, const GgufWindow& window, int64_t context) {
  const int64_t least = window.absent > 0 ? 1 : 0;
  const int64_t tokens = file.find_integer(prefix + kWindow, least).value_or(window.absent);
  if (!window.written && tokens > context) return 0;  // Phi-3, as in its config.json
  return std::min(tokens, context);
}

std::vector<int64_t> flags_of(const Gguf& file, const std::string& key, const Gguf::Value& list) {
  if (list.element != Gguf::Type::boolean) return file.integers(key);
  std::vector<int64_t> flags;
  for (const std::byte flag : list.bytes) flags.push_back(int64_t(flag));
  return flags;
}

// Throws unless the file's pattern is the family's. It is a period n (every n-th layer has no window) or a flag per layer.
void check_window_pattern(const Gguf& file, const std::string& key, const ModelConfig& c) {
  const auto found = file.metadata().find(key);
  if (found == file.metadata().end() || c.window == 0) return;
  const bool listed = found->second.type == Gguf::Type::list;
  const std::vector<int64_t> flags = listed ? flags_of(file, key, found->second) : std::vector<int64_t>();
  const int64_t every = listed ? 0 : file.integer(key);
  if (listed && int64_t(flags.size()) != c.layers)
    fail(ErrorCode::bad_file, file.path(), key, " has ", flags.size(), " elements, expected one for each of ", c.layers, " layers");
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    const bool window = listed ? flags[size_t(layer)] != 0 : every == 0 || (layer + 1) % every != 0;
    if (window != c.has_window(layer))
      fail(ErrorCode::unsupported, file.path(), key, window ? " has the window in layer " : " has no window in layer ", layer, ", where ",
           name(c.architecture), window ? " has none" : " has it");
  }
}

void read_experts(const Gguf& file, const std::string& prefix, ModelConfig& c) {
  c.experts = file.integer(prefix + kExperts, 1, RouteArgs::kMostExperts);
  c.experts_per_token = file.integer(prefix + kExpertsOfToken, 1, c.experts);
  c.expert_size = c.architecture == Architecture::mixtral ? c.intermediate_size : file.integer(prefix + kExpertSize, 1);
  if (c.architecture == Architecture::gpt_oss) c.intermediate_size = c.expert_size;  // unused: every layer has experts
}

// Sets rotary_fraction such that rotary_dims(), which rounds down, is the number of rotated elements.
void read_rotated_part(const Gguf& file, const std::string& prefix, ModelConfig& c) {
  const auto rotated = file.find_integer(prefix + kRotated, 2, c.head_dim);
  if (!rotated) return;
  c.rotary_fraction = double(*rotated) / double(c.head_dim);
  if (c.rotary_dims() != *rotated) c.rotary_fraction = std::nextafter(c.rotary_fraction, 1.0);
}

void read_biases(const Gguf& file, ModelConfig& c) {
  const auto has = [&](const char* tensor) { return file.contains(join("blk.0.", tensor, ".bias")); };
  const bool gpt2 = c.architecture == Architecture::gpt2;
  c.qkv_bias = gpt2 || c.architecture == Architecture::qwen2 || has("attn_q");
  c.attention_out_bias = gpt2 || has("attn_output");
  c.mlp_bias = gpt2 || has("ffn_up");
  if (c.architecture != Architecture::qwen2 && c.qkv_bias != c.attention_out_bias)
    fail(ErrorCode::unsupported, file.path(), "has biases on ", c.qkv_bias ? "q, k and v" : "the output of attention",
         " alone, which is not supported for ", name(c.architecture));
}

}  // namespace

ModelConfig gguf_model_config(const Gguf& file) {
  const GgufFamily& family = family_of(file);
  const std::string prefix = join(family.name, ".");
  ModelConfig c;
  c.architecture = family.architecture;
  refuse_unsupported(file, family, prefix);
  for (const IntegerKey& key : kIntegers)
    if (key.required)
      c.*key.member = file.integer(prefix + key.key, 1);
    else
      c.*key.member = file.find_integer(prefix + key.key, 1).value_or(0);
  if (c.layers > kMostLayers)  // before lists of this size are allocated
    fail(ErrorCode::bad_file, file.path(), prefix, "block_count is ", c.layers, ", expected 1 to ", kMostLayers);
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.heads % c.kv_heads != 0)
    fail(ErrorCode::bad_file, file.path(), prefix, "attention.head_count is ", c.heads, ", expected a multiple of ", prefix,
         "attention.head_count_kv, ", c.kv_heads);
  if (c.head_dim == 0) c.head_dim = c.hidden_size / c.heads;
  if (family.rotates_part) read_rotated_part(file, prefix, c);
  for (const char* key : {kValueLength, kRotated})
    if (const auto size = file.find_integer(prefix + key);
        size && *size != c.head_dim && has_rope(family) && !(key == kRotated && family.rotates_part))
      fail(ErrorCode::unsupported, file.path(), prefix, key, " is ", *size, ", expected the size of a head of q and k, ", c.head_dim);
  for (const GgufNumber& number : family.numbers) {
    const auto found = number.required ? file.number(prefix + number.key) : file.find_number(prefix + number.key);
    if (!found && number.absent == 0) continue;
    const double value = found.value_or(number.absent);
    number.set(c, shortest_double(value));
    if (!(value > 0 && std::isfinite(float(value))))
      fail(ErrorCode::bad_file, file.path(), prefix, number.key, " is ", value, ", expected a number above 0");
  }
  refuse_other_window_layers(file, family, prefix, c);
  const Gguf::Entry& embedding = tensor_of(file, "token_embd.weight");
  c.vocab_size = embedding.shape[0];
  c.dtype = embedding.type->dtype().value_or(DType::f32);
  c.tie_embeddings = !file.contains("output.weight");
  c.activation = family.activation;
  read_biases(file, c);
  if (family.window.read) c.window = read_window(file, prefix, family.window, c.max_positions);
  if (family.experts) read_experts(file, prefix, c);
  if (family.complete) family.complete(c);
  if (family.window.written) check_window_pattern(file, prefix + kWindowPattern, c);
  c.rope_scaling = gguf_rope_scaling(file, family, prefix, c);
  const SpecialIds ids = gguf_special_ids(file);
  c.bos_id = ids.bos_id;
  c.pad_id = ids.pad_id;
  c.eos_ids = ids.eos_ids;
  try {
    check_config(c, file.path());
  } catch (const Error& error) {  // invalid sizes in a file are reported as a bad file
    const std::string_view message = error.what();
    fail(ErrorCode::bad_file, file.path(), message.substr(std::min(message.size(), error.where().size() + 2)));
  }
  return c;
}

}  // namespace weft
