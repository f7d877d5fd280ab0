#include "weft/order/random_models.h"

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

ModelConfig random_config(Dice& dice, int64_t index, int64_t context) {
  constexpr Architecture kAll[] = {Architecture::llama, Architecture::gpt2, Architecture::qwen2, Architecture::qwen3};
  ModelConfig c = preset("llama-tiny");
  c.architecture = kAll[index % 4];
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
  c.qkv_bias = gpt2 || c.architecture == Architecture::qwen2 || (c.architecture == Architecture::llama && dice.coin());
  c.attention_out_bias = gpt2 || (c.architecture == Architecture::llama && c.qkv_bias);
  c.mlp_bias = gpt2 || (c.architecture == Architecture::llama && dice.coin());
  c.qk_norm = c.architecture == Architecture::qwen3;
  c.activation = gpt2 ? HiddenActivation::gelu_tanh : HiddenActivation::silu;
  c.initializer_range = 0.15;  // so that logits differ and probabilities are far from even
  c.embedding_dropout = c.attention_dropout = c.residual_dropout = 0;
  c.bos_id = c.pad_id = std::nullopt;
  c.eos_ids.clear();
  return c;
}

std::string describe(const ModelConfig& c, DType dtype, bool lora) {
  return join(name(c.architecture), " ", dtype, ": layers ", c.layers, ", heads ", c.heads, "/", c.kv_heads, " x ", c.head_dim, ", hidden ",
              c.hidden_size, ", mlp ", c.intermediate_size, ", vocabulary ", c.vocab_size, c.tie_embeddings ? ", tied" : "",
              c.qkv_bias ? ", biases" : "", lora ? ", LoRA" : "");
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

OrderModel make(const ModelConfig& config, Device& device, DType dtype, uint64_t seed, bool lora) {
  ModelOptions options{.dtype = dtype, .trainable = true};
  if (lora) options.lora = LoraOptions{.rank = 5, .scale = 0.7, .targets = {"all-linear"}, .seed = seed};
  OrderModel made{describe(config, dtype, lora), make_model(config, device, seed, options)};
  disturb(*made.model, seed);
  return made;
}

}  // namespace

OrderModel random_order_model(Device& device, DType dtype, uint64_t seed, int64_t index, int64_t context) {
  Dice dice(seed * 1000003 + uint64_t(index));
  const ModelConfig config = random_config(dice, index, context);
  return make(config, device, dtype, dice.seed(), dice.between(0, 2) == 0);
}

OrderModel shaped_order_model(Device& device, DType dtype, uint64_t seed, std::string_view shape) {
  check(shape == "1b" || shape == "135m" || shape == "124m", "check", "unknown shape '", shape, "'; expected one of 1b, 135m, 124m");
  ModelConfig config = preset(shape == "1b" ? "llama-1b" : shape == "135m" ? "smollm2-135m" : "gpt2-124m");
  config.embedding_dropout = config.attention_dropout = config.residual_dropout = 0;
  return make(config, device, dtype, seed, false);
}

}  // namespace weft
