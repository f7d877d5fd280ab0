#include "weft/order/random_models.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "weft/base/check.h"
#include "weft/base/philox.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : random_(seed) {}
  int64_t between(int64_t least, int64_t most) { return least + int64_t(random_() % uint64_t(most - least + 1)); }
  bool coin() { return random_() % 2 == 0; }
  int64_t one_of(std::initializer_list<int64_t> values) { return values.begin()[random_() % values.size()]; }
  uint64_t seed() { return random_(); }

 private:
  std::mt19937_64 random_;
};

RopeScaling random_scaling(Dice& dice, int64_t pairs, int64_t context) {
  using Kind = RopeScaling::Kind;
  constexpr Kind kKinds[] = {Kind::none, Kind::llama3, Kind::linear, Kind::dynamic, Kind::yarn, Kind::longrope};
  RopeScaling s{
      .kind = kKinds[dice.between(0, 5)], .factor = double(dice.between(2, 8)), .original_context = std::max<int64_t>(1, context / 2)};
  if (s.kind == Kind::yarn || s.kind == Kind::longrope) s.attention_factor = 1.1;
  for (int64_t i = 0; s.kind == Kind::longrope && i < pairs; ++i) {
    s.short_factors.push_back(1 + 0.1 * double(dice.between(0, 9)));
    s.long_factors.push_back(1 + double(dice.between(0, 9)));
  }
  return s;
}

std::vector<bool> random_layers(Dice& dice, int64_t layers) {
  std::vector<bool> some;
  for (int64_t layer = 0; layer < layers; ++layer) some.push_back(dice.coin());
  return some;
}

// Sets the options in which a family differs from Llama, at random.
void add_options(Dice& dice, ModelConfig& c) {
  const auto any = [&](std::initializer_list<Architecture> families) {
    return std::ranges::find(families, c.architecture) != families.end();
  };
  using enum Architecture;
  if (any({llama, granite, smollm3, gemma2, gemma3, olmo2, olmo3})) c.qkv_bias = c.attention_out_bias = dice.coin();
  if (any({llama, granite, smollm3})) c.mlp_bias = dice.coin();
  c.qkv_bias |= c.architecture == qwen2;
  c.qk_norm = any({qwen3, olmo2, olmo3, gemma3, qwen3_moe});
  c.qk_norm_whole = any({olmo2, olmo3});
  c.norms = any({olmo2, olmo3}) ? NormPlaces::after : any({gemma2, gemma3}) ? NormPlaces::around : NormPlaces::before;
  c.fused_projections = c.architecture == phi3;
  if (c.architecture == phi3 && dice.coin()) c.rotary_fraction = 0.75;
  if (dice.coin()) c.rope_scaling = random_scaling(dice, c.rotary_dims() / 2, c.max_positions);
  if (any({mistral, mixtral, phi3, qwen2, qwen3, qwen3_moe, smollm3, gemma2, gemma3, olmo3}) && dice.between(0, 2) > 0)
    c.window = dice.between(1, std::max<int64_t>(1, c.max_positions / 2));
  if (c.window > 0 && !any({mistral, mixtral, phi3})) c.window_layers = random_layers(dice, c.layers);
  if (c.architecture == smollm3) c.rotary_layers = random_layers(dice, c.layers);
  if (any({qwen3_moe, mixtral, gpt_oss})) {
    c.experts = dice.between(2, 9);
    c.experts_per_token = dice.between(1, std::min<int64_t>(4, c.experts));
    c.expert_size = c.architecture != qwen3_moe ? c.intermediate_size : dice.between(20, 90);
    c.router_of_chosen = c.architecture != qwen3_moe || dice.coin();
    if (c.architecture == qwen3_moe && dice.coin()) c.expert_layers = random_layers(dice, c.layers);
  }
  if (c.architecture == gpt_oss) {
    c.attention_sinks = c.clamped_experts = c.qkv_bias = c.attention_out_bias = true;
    c.window = std::max<int64_t>(1, c.max_positions / 3), c.window_layers = random_layers(dice, c.layers);
  }
  if (any({gemma3, olmo3})) c.local_rope_theta = 5000;
  if (c.architecture == ministral3) {
    c.rope_scaling = {.kind = RopeScaling::Kind::yarn, .factor = 4, .original_context = std::max<int64_t>(1, c.max_positions / 4)};
    c.query_growth = 0.3;
  }
  if (c.architecture == granite) c.embedding_scale = 3, c.attention_scale = 0.1, c.residual_scale = 0.3, c.logits_divisor = 1.7;
  if (any({gemma2, gemma3})) {
    c.norm_adds_one = true;
    c.activation = HiddenActivation::gelu_tanh;
    c.embedding_scale = std::sqrt(double(c.hidden_size)), c.attention_scale = 0.1;
  }
  if (c.architecture == gemma2) c.attention_soft_cap = 3, c.logits_soft_cap = 10;
}

ModelConfig random_config(Dice& dice, int64_t index, int64_t context) {
  ModelConfig c = preset("llama-tiny");
  c.architecture = Architecture(index % kOrderFamilies);
  const bool gpt2 = c.architecture == Architecture::gpt2;
  c.layers = dice.between(1, 3);
  c.head_dim = dice.one_of({16, 32, 48, 64, 80, 96, 128});
  c.kv_heads = dice.between(1, 2);
  c.heads = gpt2 ? c.kv_heads : c.kv_heads * dice.between(1, 4);
  c.hidden_size = gpt2 ? c.heads * c.head_dim : dice.between(33, 150);
  c.intermediate_size = dice.between(40, 280);
  c.vocab_size = dice.between(97, 900);
  c.max_positions = context;
  c.tie_embeddings = dice.coin();
  c.qkv_bias = c.attention_out_bias = c.mlp_bias = gpt2;
  c.activation = gpt2 ? HiddenActivation::gelu_tanh : HiddenActivation::silu;
  c.initializer_range = 0.15;  // so that logits differ and probabilities are far from even
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = 0;
  c.bos_id = c.pad_id = std::nullopt;
  c.eos_ids.clear();
  if (!gpt2) add_options(dice, c);
  return c;
}

std::string describe(const ModelConfig& c, DType dtype, bool lora, bool int8) {
  return join(name(c.architecture), " ", dtype, int8 ? ", int8 weights" : "", ": layers ", c.layers, ", heads ", c.heads, "/", c.kv_heads,
              " x ", c.head_dim, ", hidden ", c.hidden_size, ", mlp ", c.intermediate_size, ", vocabulary ", c.vocab_size,
              c.tie_embeddings ? ", tied" : "", c.qkv_bias ? ", biases" : "",
              c.rope_scaling.kind == RopeScaling::Kind::none ? "" : ", scaled RoPE", c.window > 0 ? join(", window ", c.window) : "",
              c.experts > 0 ? join(", experts ", c.experts_per_token, " of ", c.experts) : "", lora ? ", LoRA" : "");
}

// Biases and an adapter's B start at zero, gains at one: all get random values.
void disturb(const Model& model, uint64_t seed) {
  const NoGrad no_grad;
  uint32_t site = 0;
  for (const Parameter& p : model.all_parameters()) {
    ++site;
    const bool adapter = p.name.find("lora_B") != std::string::npos;
    if (p.role != ParameterRole::vector && !adapter) continue;
    const bool gain = p.name.find("norm") != std::string::npos || p.name.find("ln_") != std::string::npos;
    PhiloxStream random(seed, site);
    std::vector<float> values(size_t(p.tensor.numel()));
    for (float& v : values) v = float((gain && p.name.ends_with("weight") ? 1 : 0) + 0.2 * random.normal());
    const Tensor drawn = Tensor::from_host(model.device(), p.tensor.shape(), values);
    copy(cast(drawn, p.tensor.dtype()), p.tensor.detach());
  }
}

OrderModel make(const ModelConfig& config, Device& device, DType dtype, uint64_t seed, bool lora, bool int8) {
  ModelOptions options{.dtype = dtype, .trainable = !int8, .int8 = int8};
  if (lora) options.lora = LoraOptions{.rank = 5, .scale = 0.7, .targets = {"all-linear"}, .seed = seed};
  OrderModel made{describe(config, dtype, lora, int8), make_model(config, device, seed, options)};
  disturb(*made.model, seed);
  return made;
}

}  // namespace

OrderModel random_order_model(Device& device, DType dtype, uint64_t seed, int64_t index, int64_t context, bool int8) {
  Dice dice(seed * 1000003 + uint64_t(index));
  ModelConfig config = random_config(dice, index, context);
  // On CUDA, attention that reads a cache does not support sinks.
  if (device.name().starts_with("cuda")) config.attention_sinks = false;
  return make(config, device, dtype, dice.seed(), dice.between(0, 2) == 0, int8);
}

OrderModel shaped_order_model(Device& device, DType dtype, uint64_t seed, std::string_view shape, bool int8) {
  check(shape == "1b" || shape == "135m" || shape == "124m", "check", "unknown shape '", shape, "'; expected one of 1b, 135m, 124m");
  ModelConfig config = preset(shape == "1b" ? "llama-1b" : shape == "135m" ? "smollm2-135m" : "gpt2-124m");
  config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
  return make(config, device, dtype, seed, false, int8);
}

}  // namespace weft
