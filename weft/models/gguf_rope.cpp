#include "weft/models/gguf_rope.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "weft/base/check.h"
#include "weft/models/families/keys.h"

namespace weft {
namespace {

using Kind = RopeScaling::Kind;

constexpr int64_t kMost = INT32_MAX;

// Keys after the prefix "<family>.".
constexpr const char *kType = "rope.scaling.type", *kScalingFactor = "rope.scaling.factor",
                     *kOriginalContext = "rope.scaling.original_context_length", *kAttentionFactor = "rope.scaling.attn_factor";

// Numbers of yarn: llama.cpp reads them for mistral3 only and uses these values for all other families.
struct YarnNumber {
  const char* key;
  double RopeScaling::* member;
  double value;
};
constexpr YarnNumber kBetas[] = {{"rope.scaling.yarn_beta_fast", &RopeScaling::beta_fast, 32},
                                 {"rope.scaling.yarn_beta_slow", &RopeScaling::beta_slow, 1}};
bool has_betas(const GgufFamily& family) { return family.name == std::string_view("mistral3"); }

// Only for mistral3: mscale_all_dim in transformers.
constexpr const char* kLogMultiplier = "rope.scaling.yarn_log_multiplier";

// GGUF stores llama3 scaling as a tensor of factors. Our keys store the parameters from which it was computed; other programs ignore them.
constexpr const char *kFactor = "weft.rope_scaling.factor", *kLowFactor = "weft.rope_scaling.low_freq_factor",
                     *kHighFactor = "weft.rope_scaling.high_freq_factor", *kOriginal = "weft.rope_scaling.original_context";

// The parameters of llama3 scaling. Without our keys the factor is the largest in the tensor, that of the lowest frequencies.
RopeScaling llama3_of(const Gguf& file, std::span<const float> factors) {
  const float most = std::max(1.0f, *std::ranges::max_element(factors));
  const RopeScaling s{.kind = Kind::llama3,
                      .factor = shortest_double(file.find_number(kFactor).value_or(most)),
                      .low_freq_factor = shortest_double(file.find_number(kLowFactor).value_or(1)),
                      .high_freq_factor = shortest_double(file.find_number(kHighFactor).value_or(4)),
                      .original_context = file.find_integer(kOriginal, 1, kMost).value_or(8192)};
  if (!(s.factor >= 1 && s.factor < 1e9 && s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor && s.high_freq_factor < 1e9))
    fail(ErrorCode::bad_file, file.path(), "tensor '", kGgufRopeFactors, "' and the keys weft.rope_scaling have the factor ", s.factor,
         ", low ", s.low_freq_factor, " and high ", s.high_freq_factor, ", expected 1 <= factor and 0 < low < high");
  return s;
}

std::vector<float> llama3_factors(const ModelConfig& config) {
  const auto plain = rope_frequencies(config.head_dim, config.rope_theta),
             scaled = rope_frequencies(config.head_dim, config.rope_theta, config.rope_scaling);
  std::vector<float> factors;
  for (size_t i = 0; i < plain.size(); ++i) factors.push_back(float(plain[i] / scaled[i]));
  return factors;
}

std::vector<float> factors_of(const Gguf& file, const char* name, int64_t pairs) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end())
    fail(ErrorCode::bad_file, file.path(), "has no tensor '", name, "', expected one of shape ", Shape{pairs});
  const Gguf::Entry& entry = found->second;
  if (entry.type->dtype() != DType::f32 || entry.shape.numel() != pairs)
    fail(ErrorCode::bad_file, file.path(), "tensor '", name, "' is ", entry.type->name, " of shape ", entry.shape, ", expected F32 of ",
         Shape{pairs});
  std::vector<float> factors(size_t(entry.shape.numel()));
  to_floats(*entry.type, entry.bytes, factors);
  return factors;
}

RopeScaling read_llama3(const Gguf& file, ModelConfig c) {
  const std::vector<float> factors = factors_of(file, kGgufRopeFactors, c.head_dim / 2);
  c.rope_scaling = llama3_of(file, factors);
  const std::vector<float> expected = llama3_factors(c);
  for (size_t i = 0; i < factors.size(); ++i)
    if (!(std::fabs(factors[i] - expected[i]) <= 1e-4f * expected[i]))
      fail(ErrorCode::unsupported, file.path(), "tensor '", kGgufRopeFactors, "' has the factor ", factors[i], " at index ", i,
           ", expected ", expected[i], ", that of llama3 scaling by ", c.rope_scaling.factor, " from a context of ",
           c.rope_scaling.original_context);
  return c.rope_scaling;
}

double read_factor(const Gguf& file, const std::string& prefix) {
  const double factor = shortest_double(file.number(prefix + kScalingFactor));
  if (!(factor >= 1 && factor < 1e9))
    fail(ErrorCode::bad_file, file.path(), prefix, kScalingFactor, " is ", factor, ", expected 1 or more");
  return factor;
}

// llama.cpp's yarn factor on cos and sin, which the key attn_factor multiplies.
double usual_attention_factor(double factor, double log_multiplier) {
  const double usual = keys::yarn_attention_factor(factor);
  return log_multiplier == 0 || factor <= 1 ? usual : usual / (log_multiplier * (usual - 1) + 1);
}

RopeScaling read_yarn(const Gguf& file, const GgufFamily& family, const std::string& prefix, const ModelConfig& c) {
  RopeScaling s{.kind = Kind::yarn, .factor = read_factor(file, prefix)};
  s.original_context = file.find_integer(prefix + kOriginalContext, 1, kMost).value_or(c.max_positions);
  const double attention = shortest_double(file.find_number(prefix + kAttentionFactor).value_or(1));
  const double multiplier = has_betas(family) ? shortest_double(file.find_number(prefix + kLogMultiplier).value_or(0)) : 0;
  for (const auto& [key, value, least] : {std::tuple{kAttentionFactor, attention, 1e-9}, {kLogMultiplier, multiplier, 0.0}})
    if (!(value >= least && value < 1e9))
      fail(ErrorCode::bad_file, file.path(), prefix, key, " is ", value, ", expected a number ", least > 0 ? "above 0" : "of 0 or more");
  s.attention_factor = attention * usual_attention_factor(s.factor, multiplier);
  for (const auto& [key, member, value] : kBetas) {
    s.*member = shortest_double(file.find_number(prefix + key).value_or(value));
    if (s.*member != value && !has_betas(family))
      fail(ErrorCode::unsupported, file.path(), prefix, key, " is ", s.*member, ", expected ", value, ", which llama.cpp computes with");
  }
  return s;
}

// A file has longrope if it has its tensors. For a context above the original one llama.cpp uses the long factors, as Weft does.
RopeScaling read_longrope(const Gguf& file, const std::string& prefix, const std::string& type, const ModelConfig& c) {
  if (type != "none" && type != "longrope")
    fail(ErrorCode::unsupported, file.path(), prefix, kType, " is '", type, "' beside the tensor '", kGgufLongFactors, "'");
  if (const double factor = file.find_number(prefix + kScalingFactor).value_or(1); type == "longrope" && factor != 0 && factor != 1)
    fail(ErrorCode::unsupported, file.path(), prefix, kScalingFactor, " is ", factor, " beside the tensor '", kGgufLongFactors, "'");
  RopeScaling s{.kind = Kind::longrope,
                .original_context = file.find_integer(prefix + kOriginalContext, 1, kMost).value_or(c.max_positions)};
  s.factor = double(c.max_positions) / double(s.original_context);
  for (float factor : factors_of(file, kGgufShortFactors, c.rotary_dims() / 2)) s.short_factors.push_back(shortest_double(factor));
  for (float factor : factors_of(file, kGgufLongFactors, c.rotary_dims() / 2)) s.long_factors.push_back(shortest_double(factor));
  const double attention = file.find_number(prefix + kAttentionFactor).value_or(1),
               usual = keys::longrope_attention_factor(s.factor, s.original_context);
  s.attention_factor = float(attention) == float(usual) ? usual : shortest_double(attention);
  return s;
}

// A factor without a type means linear scaling, as in llama.cpp.
std::string scaling_type(const Gguf& file, const std::string& prefix) {
  const double factor = file.find_number(prefix + kScalingFactor).value_or(1);
  return file.find_text(prefix + kType).value_or(factor == 0 || factor == 1 ? "none" : "linear");
}

// Refuses attn_factor without yarn or longrope: llama.cpp multiplies cos and sin by it for any type of scaling.
void refuse_attention_factor(const Gguf& file, const std::string& prefix) {
  if (const auto factor = file.find_number(prefix + kAttentionFactor); factor && *factor != 1)
    fail(ErrorCode::unsupported, file.path(), prefix, kAttentionFactor, " is ", shortest_double(*factor),
         ", which needs a scaling of type yarn");
}

// All but GPT-2, Gemma (whose layers with a window have another base) and Phi-3 (which has longrope).
bool has_yarn(const GgufFamily& family) {
  using enum Architecture;
  return family.architecture != gpt2 && family.architecture != gemma2 && family.architecture != gemma3 && family.architecture != phi3;
}

bool has_longrope(const GgufFamily& family) { return family.architecture == Architecture::phi3; }

}  // namespace

double shortest_double(double value) {
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, float(value)).ptr;
  std::from_chars(text, end, value);
  return value;
}

std::vector<GgufTensor> gguf_rope_tensors(const ModelConfig& c) {
  std::vector<GgufTensor> tensors;
  const auto add = [&](const char* name, std::vector<float> factors) {
    tensors.push_back({name, &gguf_type_to_write("f32"), {int64_t(factors.size())}, [factors = std::move(factors)] { return factors; }});
  };
  const RopeScaling& s = c.rope_scaling;
  if (s.kind == Kind::llama3) add(kGgufRopeFactors, llama3_factors(c));
  if (s.kind == Kind::longrope) {
    add(kGgufLongFactors, {s.long_factors.begin(), s.long_factors.end()});
    add(kGgufShortFactors, {s.short_factors.begin(), s.short_factors.end()});
  }
  return tensors;
}

bool is_gguf_rope_tensor(const ModelConfig& c, std::string_view name) {
  return c.rope_scaling.kind == Kind::longrope ? name == kGgufLongFactors || name == kGgufShortFactors
                                               : name == kGgufRopeFactors && c.rope_scaling.kind == Kind::llama3;
}

RopeScaling gguf_rope_scaling(const Gguf& file, const GgufFamily& family, const std::string& prefix, const ModelConfig& c) {
  const std::string type = scaling_type(file, prefix);
  if (has_longrope(family) && file.contains(kGgufLongFactors)) return read_longrope(file, prefix, type, c);
  if (type != "none" && type != "linear" && !(type == "yarn" && has_yarn(family)))
    fail(ErrorCode::unsupported, file.path(), prefix, kType, " is '", type, "'; none, linear", has_yarn(family) ? ", yarn" : "",
         " and the factors of llama3 are supported");
  if (type != "yarn" && family.architecture != Architecture::gpt2) refuse_attention_factor(file, prefix);
  if (file.contains(kGgufRopeFactors)) {
    if (type != "none")
      fail(ErrorCode::unsupported, file.path(), prefix, kType, " is '", type, "' beside the tensor '", kGgufRopeFactors, "'");
    return read_llama3(file, c);
  }
  if (type == "linear") return {.kind = Kind::linear, .factor = read_factor(file, prefix)};
  return type == "yarn" ? read_yarn(file, family, prefix, c) : RopeScaling();
}

bool has_gguf_rope_scaling(const ModelConfig& c, const GgufFamily& family) {
  const RopeScaling& s = c.rope_scaling;
  switch (s.kind) {
    case Kind::none: return true;
    case Kind::linear: return family.architecture != Architecture::gpt2;
    case Kind::llama3: return family.name == std::string_view("llama");
    case Kind::yarn:
      return has_yarn(family) &&
             (has_betas(family) || std::ranges::all_of(kBetas, [&](const YarnNumber& beta) { return s.*beta.member == beta.value; }));
    case Kind::longrope: return has_longrope(family);
    default: return false;
  }
}

namespace {

void put_yarn(const RopeScaling& s, const GgufFamily& family, const std::string& prefix, GgufMetadata& metadata) {
  metadata.put(prefix + kOriginalContext, uint32_t(s.original_context));
  const bool multiplier = has_betas(family) && s.attention_factor == 1 && s.factor > 1;  // as published
  if (multiplier) metadata.put(prefix + kLogMultiplier, 1.0f);
  const double usual = usual_attention_factor(s.factor, multiplier);
  if (s.attention_factor != usual) metadata.put(prefix + kAttentionFactor, float(s.attention_factor / usual));
  for (const auto& [key, member, value] : kBetas)
    if (s.*member != value) metadata.put(prefix + key, float(s.*member));
}

}  // namespace

void put_rope_scaling(const ModelConfig& c, const GgufFamily& family, const std::string& prefix, GgufMetadata& metadata) {
  const RopeScaling& s = c.rope_scaling;
  if (s.kind == Kind::linear || s.kind == Kind::yarn) {
    metadata.put(prefix + kType, s.kind == Kind::linear ? "linear" : "yarn");
    metadata.put(prefix + kScalingFactor, float(s.factor));
  }
  if (s.kind == Kind::yarn) put_yarn(s, family, prefix, metadata);
  if (s.kind == Kind::longrope) {
    metadata.put(prefix + kOriginalContext, uint32_t(s.original_context));
    metadata.put(prefix + kAttentionFactor, float(s.attention_factor));
  }
  if (s.kind != Kind::llama3) return;
  metadata.put(kFactor, float(s.factor));
  metadata.put(kLowFactor, float(s.low_freq_factor));
  metadata.put(kHighFactor, float(s.high_freq_factor));
  metadata.put(kOriginal, uint32_t(s.original_context));
}

}  // namespace weft
