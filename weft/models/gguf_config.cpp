// The keys of a model's config, in both directions by one table.
#include "weft/models/gguf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "weft/base/check.h"
#include "weft/models/families/family.h"
#include "weft/models/gguf_families.h"

namespace weft {
namespace {

// Below "<family>.".
struct IntegerKey {
  const char* key;
  int64_t ModelConfig::* member;
  bool required;
};
constexpr IntegerKey kIntegers[] = {
    {"context_length", &ModelConfig::max_positions, true},
    {"embedding_length", &ModelConfig::hidden_size, true},
    {"block_count", &ModelConfig::layers, true},
    {"feed_forward_length", &ModelConfig::intermediate_size, true},
    {"attention.head_count", &ModelConfig::heads, true},
    {"attention.head_count_kv", &ModelConfig::kv_heads, false},
    {"attention.key_length", &ModelConfig::head_dim, false},
};
constexpr const char *kValueLength = "attention.value_length", *kRotated = "rope.dimension_count", *kScaling = "rope.scaling.type",
                     *kScalingFactor = "rope.scaling.factor", *kWindow = "attention.sliding_window", *kExperts = "expert_count",
                     *kExpertsOfToken = "expert_used_count", *kExpertSize = "expert_feed_forward_length";

// llama3 scaling is the tensor of its factors; these keys have what it was computed from. Other programs ignore them.
constexpr const char *kFactor = "weft.rope_scaling.factor", *kLowFactor = "weft.rope_scaling.low_freq_factor",
                     *kHighFactor = "weft.rope_scaling.high_freq_factor", *kOriginal = "weft.rope_scaling.original_context";

// Keys that change the computation of a family, unless its table of numbers has them.
constexpr const char* kUnsupported[] = {
    "expert_count",      "attention.sliding_window", "attention.scale", "attention.clamp_kqv",    "attention.max_alibi_bias",
    "logit_scale",       "embedding_scale",          "residual_scale",  "attn_logit_softcapping", "final_logit_softcapping",
    "rope.scale_linear",
};

// A float as the double of its shortest spelling: 1e-05, not 9.999999747378752e-06.
double shortest(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, float(value)).ptr;
  std::from_chars(text, end, value);
  return value;
}

const GgufFamily& family_of(const Gguf& file) {
  const std::string name = file.text("general.architecture");
  const GgufFamily* family = gguf_family(name);
  if (!family) fail(ErrorCode::unsupported, file.path(), "general.architecture is '", name, "'; supported are ", gguf_family_names());
  // Mixtral is a Llama with experts.
  if (family->architecture == Architecture::llama && file.find_integer(join(name, ".", kExperts)).value_or(0) > 0)
    return gguf_family(Architecture::mixtral);
  return *family;
}

bool has_number(const GgufFamily& family, std::string_view key) {
  return std::ranges::any_of(family.numbers, [&](const GgufNumber& number) { return key == number.key; });
}
bool has_rope(const GgufFamily& family) { return has_number(family, "rope.freq_base"); }

void refuse_unsupported(const Gguf& file, const GgufFamily& family, const std::string& prefix) {
  for (const char* key : kUnsupported)
    if (const auto value = file.find_number(prefix + key); value && *value != 0 && !has_number(family, key) &&
                                                           !(family.windows && std::string_view(key) == kWindow) &&
                                                           !(family.experts && std::string_view(key) == kExperts))
      fail(ErrorCode::unsupported, file.path(), prefix, key, " is ", *value, ", which is not supported");
  if (const auto scaling = file.find_text(prefix + kScaling); scaling && *scaling != "none" && *scaling != "linear")
    fail(ErrorCode::unsupported, file.path(), prefix, kScaling, " is '", *scaling,
         "'; none, linear and the factors of llama3 are supported");
}

const Gguf::Entry& tensor_of(const Gguf& file, const char* name) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) fail(ErrorCode::bad_file, file.path(), "has no tensor '", name, "'");
  return found->second;
}

// The scaling whose factors are those of the file: the largest is that of the slowest frequencies.
void read_rope_factors(const Gguf& file, ModelConfig& c) {
  if (!file.contains(kGgufRopeFactors)) return;
  const Gguf::Entry& entry = tensor_of(file, kGgufRopeFactors);
  if (entry.type->dtype() != DType::f32 || entry.shape.numel() != c.head_dim / 2)
    fail(ErrorCode::bad_file, file.path(), "tensor '", kGgufRopeFactors, "' is ", entry.type->name, " of shape ", entry.shape,
         ", expected F32 of ", Shape{c.head_dim / 2});
  std::vector<float> factors(size_t(entry.shape.numel()));
  to_floats(*entry.type, entry.bytes, factors);
  float most = 1;
  for (float factor : factors) most = std::max(most, factor);
  constexpr int64_t kMost = INT32_MAX;
  c.rope_scaling = {.kind = RopeScaling::Kind::llama3,
                    .factor = shortest(file.find_number(kFactor).value_or(most)),
                    .low_freq_factor = shortest(file.find_number(kLowFactor).value_or(1)),
                    .high_freq_factor = shortest(file.find_number(kHighFactor).value_or(4)),
                    .original_context = file.find_integer(kOriginal, 1, kMost).value_or(8192)};
  const RopeScaling& scaling = c.rope_scaling;
  if (!(scaling.factor >= 1 && scaling.factor < 1e9 && scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor &&
        scaling.high_freq_factor < 1e9))
    fail(ErrorCode::bad_file, file.path(), "tensor '", kGgufRopeFactors, "' and the keys weft.rope_scaling have the factor ",
         scaling.factor, ", low ", scaling.low_freq_factor, " and high ", scaling.high_freq_factor,
         ", expected 1 <= factor and 0 < low < high");
  const std::vector<float> expected = gguf_rope_factors(c);
  for (size_t i = 0; i < factors.size(); ++i)
    if (!(std::fabs(factors[i] - expected[i]) <= 1e-4f * expected[i]))
      fail(ErrorCode::unsupported, file.path(), "tensor '", kGgufRopeFactors, "' has the factor ", factors[i], " at index ", i,
           ", expected ", expected[i], ", that of llama3 scaling by ", c.rope_scaling.factor, " from a context of ",
           c.rope_scaling.original_context);
}

void read_experts(const Gguf& file, const std::string& prefix, ModelConfig& c) {
  c.experts = file.integer(prefix + kExperts, 1);
  c.experts_per_token = file.integer(prefix + kExpertsOfToken, 1);
  c.expert_size = c.architecture == Architecture::mixtral ? c.intermediate_size : file.integer(prefix + kExpertSize, 1);
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
  if (c.layers > kMostLayers)  // before a list is made for them
    fail(ErrorCode::bad_file, file.path(), prefix, "block_count is ", c.layers, ", expected 1 to ", kMostLayers);
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  if (c.head_dim == 0) c.head_dim = c.hidden_size / c.heads;
  for (const char* key : {kValueLength, kRotated})
    if (const auto size = file.find_integer(prefix + key); size && *size != c.head_dim && has_rope(family))
      fail(ErrorCode::unsupported, file.path(), prefix, key, " is ", *size, ", expected the size of a head of q and k, ", c.head_dim);
  for (const GgufNumber& number : family.numbers) {
    const auto found = number.required ? file.number(prefix + number.key) : file.find_number(prefix + number.key);
    if (!found) continue;
    const double value = *found;
    number.set(c, shortest(value));
    if (!(value > 0 && std::isfinite(float(value))))
      fail(ErrorCode::bad_file, file.path(), prefix, number.key, " is ", value, ", expected a number above 0");
  }
  const Gguf::Entry& embedding = tensor_of(file, "token_embd.weight");
  c.vocab_size = embedding.shape[0];
  c.dtype = embedding.type->dtype().value_or(DType::f32);
  c.tie_embeddings = !file.contains("output.weight");
  c.activation = family.activation;
  read_biases(file, c);
  if (family.windows) c.window = file.find_integer(prefix + kWindow).value_or(0);
  if (family.experts) read_experts(file, prefix, c);
  if (family.complete) family.complete(c);
  if (file.find_text(prefix + kScaling) == "linear") {
    c.rope_scaling = {.kind = RopeScaling::Kind::linear, .factor = shortest(file.number(prefix + kScalingFactor))};
    if (!(c.rope_scaling.factor >= 1 && c.rope_scaling.factor < 1e9))
      fail(ErrorCode::bad_file, file.path(), prefix, kScalingFactor, " is ", c.rope_scaling.factor, ", expected 1 or more");
  }
  read_rope_factors(file, c);
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

std::vector<float> gguf_rope_factors(const ModelConfig& config) {
  const auto plain = rope_frequencies(config.head_dim, config.rope_theta),
             scaled = rope_frequencies(config.head_dim, config.rope_theta, config.rope_scaling);
  std::vector<float> factors;
  for (size_t i = 0; i < plain.size(); ++i) factors.push_back(float(plain[i] / scaled[i]));
  return factors;
}

namespace {

// The config that a reader makes of the keys: everything else must be what the family always has.
void check_representable(const ModelConfig& c, const GgufFamily& family) {
  using Kind = RopeScaling::Kind;
  ModelConfig d;
  d.activation = family.activation;
  for (const IntegerKey& key : kIntegers) d.*key.member = c.*key.member;
  for (const GgufNumber& number : family.numbers) number.set(d, number.of(c));
  d.tie_embeddings = c.tie_embeddings;
  if (family.windows) d.window = c.window;
  if (family.complete) family.complete(d);
  const bool expert_size = c.expert_size == (c.architecture == Architecture::mixtral ? c.intermediate_size : c.expert_size);
  const bool factors = family.name == std::string_view("llama") && c.rope_scaling.kind == Kind::llama3;
  const bool olmo2 = c.architecture == Architecture::olmo2, phi3 = c.architecture == Architecture::phi3;
  const bool biases = c.architecture == Architecture::llama || c.architecture == Architecture::granite ||
                      c.architecture == Architecture::gpt2 || (c.architecture == Architecture::qwen2 && !c.attention_out_bias);
  const std::pair<const char*, bool> settings[] = {
      {"activation", c.activation == d.activation},
      {"kind of norms",
       c.norms == d.norms && c.norm_adds_one == d.norm_adds_one && c.qk_norm == d.qk_norm && c.qk_norm_whole == d.qk_norm_whole},
      {"window of attention", c.window == d.window && (c.window == 0 || c.window_layers == d.window_layers)},
      {"soft cap", c.attention_soft_cap == d.attention_soft_cap && c.logits_soft_cap == d.logits_soft_cap},
      {"scale of the embeddings", std::abs(c.embedding_scale - d.embedding_scale) < 1e-6 * d.embedding_scale},
      {"scale of attention", std::abs(c.attention_scale - d.attention_scale) < 1e-6 && c.scale_attention && !c.scale_by_inverse_layer},
      {"scale of the residuals or logits", c.residual_scale == d.residual_scale && c.logits_divisor == d.logits_divisor},
      {"RoPE scaling", factors || c.rope_scaling.kind == Kind::none || (c.rope_scaling.kind == Kind::linear && has_rope(family))},
      {"use of rotary positions",
       c.rotary_fraction == 1 && c.rotary_layers == d.rotary_layers && c.local_rope_theta == d.local_rope_theta && c.query_growth == 0},
      {"head", c.tie_embeddings == d.tie_embeddings && !(c.tie_embeddings && olmo2)},
      {"size of heads", c.heads * c.head_dim == c.hidden_size || !(olmo2 || phi3)},
      {"mixture of experts", c.router_of_chosen && c.expert_layers.empty() && expert_size && family.experts == (c.experts > 0)},
      {"set of biases", biases || !(c.qkv_bias || c.attention_out_bias || c.mlp_bias)},
  };
  for (const auto& [what, same] : settings)
    if (!same)
      fail(ErrorCode::unsupported, "export", "this ", name(c.architecture), " model cannot be written as GGUF: llama.cpp's ", family.name,
           " has another ", what);
}

}  // namespace

void put_model_config(const ModelConfig& c, GgufMetadata& metadata) {
  const GgufFamily& family = gguf_family(c.architecture);
  const std::string prefix = join(family.name, ".");
  check_representable(c, family);
  metadata.put(prefix + "vocab_size", uint32_t(c.vocab_size));
  for (const IntegerKey& key : kIntegers)
    if (key.required || has_rope(family)) metadata.put(prefix + key.key, uint32_t(c.*key.member));
  for (const GgufNumber& number : family.numbers)
    if (number.of(c) != 0) metadata.put(prefix + number.key, float(number.of(c)));
  if (family.windows && c.window > 0) metadata.put(prefix + kWindow, uint32_t(c.window));
  if (family.experts) {
    metadata.put(prefix + kExperts, uint32_t(c.experts));
    metadata.put(prefix + kExpertsOfToken, uint32_t(c.experts_per_token));
    if (c.architecture != Architecture::mixtral) metadata.put(prefix + kExpertSize, uint32_t(c.expert_size));
  }
  if (!has_rope(family)) return;
  metadata.put(prefix + kValueLength, uint32_t(c.head_dim));
  metadata.put(prefix + kRotated, uint32_t(c.head_dim));
  if (c.rope_scaling.kind == RopeScaling::Kind::linear) {
    metadata.put(prefix + kScaling, "linear");
    metadata.put(prefix + kScalingFactor, float(c.rope_scaling.factor));
  }
  if (c.rope_scaling.kind != RopeScaling::Kind::llama3) return;
  metadata.put(kFactor, float(c.rope_scaling.factor));
  metadata.put(kLowFactor, float(c.rope_scaling.low_freq_factor));
  metadata.put(kHighFactor, float(c.rope_scaling.high_freq_factor));
  metadata.put(kOriginal, uint32_t(c.rope_scaling.original_context));
}

}  // namespace weft
