#include "weft/models/config.h"

#include <algorithm>
#include <cmath>

#include "weft/models/families/family.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/route/route.h"

namespace weft {
namespace {

void check_numbers(const ModelConfig& c, std::string_view where) {
  for (auto [name, p] : {std::pair<const char*, float>{"embedding_dropout", c.embedding_dropout},
                         {"attention_dropout", c.attention_dropout},
                         {"residual_dropout", c.residual_dropout}})
    check(p >= 0 && p < 1, where, name, " is ", p, ", expected zero or more and below 1");
  for (auto [name, value] : {std::pair<const char*, double>{"norm_eps", c.norm_eps},
                             {"initializer_range", c.initializer_range},
                             {"attention_scale", c.attention_scale},
                             {"attention_soft_cap", double(c.attention_soft_cap)},
                             {"logits_soft_cap", double(c.logits_soft_cap)},
                             {"local_rope_theta", c.local_rope_theta},
                             {"router_loss", c.router_loss},
                             {"query_growth", c.query_growth}})
    check(std::isfinite(value) && value >= 0, where, name, " is ", value, ", expected zero or more");
  for (auto [name, value] : {std::pair<const char*, double>{"embedding_scale", c.embedding_scale},
                             {"residual_scale", c.residual_scale},
                             {"logits_divisor", c.logits_divisor}})
    check(std::isfinite(value) && value > 0, where, name, " is ", value, ", expected a number above zero");
}

void check_layers(const ModelConfig& c, std::string_view where) {
  for (auto [name, layers] :
       {std::pair{"window_layers", &c.window_layers}, {"rotary_layers", &c.rotary_layers}, {"expert_layers", &c.expert_layers}})
    check(layers->empty() || int64_t(layers->size()) == c.layers, where, name, " has ", layers->size(),
          " elements, expected one for each of ", c.layers, " layers");
  check(0 <= c.window && c.window <= c.max_positions, where, "a window of ", c.window, " tokens exceeds the context of ", c.max_positions);
}

void check_experts(const ModelConfig& c, std::string_view where) {
  if (c.experts == 0) return;
  check(1 <= c.experts && c.experts <= RouteArgs::kMostExperts, where, "experts is ", c.experts, ", expected 1 to ",
        RouteArgs::kMostExperts);
  check(1 <= c.experts_per_token && c.experts_per_token <= c.experts, where, "experts_per_token is ", c.experts_per_token,
        ", expected 1 to the number of experts, ", c.experts);
  check(1 <= c.expert_size && c.expert_size < int64_t(1) << 31, where, "expert_size is ", c.expert_size, ", expected 1 or more");
  check(c.gate_limit > 0 && std::isfinite(c.gate_limit), where, "gate_limit is ", c.gate_limit, ", expected a number above zero");
  check(std::isfinite(c.gate_slope), where, "gate_slope is ", c.gate_slope, ", expected a finite number");
}

void check_rope(const ModelConfig& c, std::string_view where) {
  const int64_t R = c.rotary_dims();
  check(c.rotary_fraction > 0 && c.rotary_fraction <= 1 && R >= 2 && R % 2 == 0, where, "RoPE rotates pairs: ", c.rotary_fraction,
        " of head_dim ", c.head_dim, " is ", R, " elements, expected an even number up to head_dim");
  rope_frequencies(R, c.rope_theta, c.rope_scaling, c.max_positions);
  if (c.local_rope_theta > 0) rope_frequencies(R, c.local_rope_theta);
  check(c.query_growth == 0 || c.rope_scaling.original_context > 0, where, "query_growth needs a RoPE scaling with an original context");
}

}  // namespace

std::string_view name(Architecture architecture) { return family_of(architecture).model_type; }

int64_t ModelConfig::layers_with_experts() const {
  int64_t count = 0;
  for (int64_t layer = 0; layer < layers; ++layer) count += has_experts(layer);
  return count;
}

int64_t ModelConfig::parameter_count() const {
  const int64_t C = hidden_size, q = heads * head_dim, kv = kv_heads * head_dim, F = intermediate_size;
  const int64_t head = tie_embeddings ? 0 : vocab_size * C;
  if (architecture == Architecture::gpt2)
    return (vocab_size + max_positions) * C + head + layers * (4 * C * C + 4 * C + 2 * C * F + F + C + 4 * C) + 2 * C;
  const int64_t head_norms = !qk_norm ? 0 : qk_norm_whole ? q + kv : 2 * head_dim;
  const int64_t attention = 2 * C * q + 2 * C * kv + (qkv_bias ? q + 2 * kv : 0) + (attention_out_bias ? C : 0) + head_norms;
  const int64_t mlp = 3 * C * F + (mlp_bias ? 2 * F + C : 0), Fe = expert_size, sparse = layers_with_experts();
  const int64_t mixture = experts * (C + 3 * C * Fe) + (clamped_experts ? experts * (1 + 2 * Fe + C) : 0);
  const int64_t block_norms = (norms == NormPlaces::around ? 4 : 2) * C;
  const int64_t sinks = attention_sinks ? heads : 0;
  return vocab_size * C + head + layers * (attention + sinks + block_norms) + (layers - sparse) * mlp + sparse * mixture + C;
}

void check_config(const ModelConfig& c, std::string_view where) {
  constexpr int64_t kMost = int64_t(1) << 31;  // ids and positions are 32-bit
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
  check_layers(c, where);
  check_experts(c, where);
  if (c.architecture == Architecture::gpt2) {
    check(c.heads == c.kv_heads && c.heads * c.head_dim == c.hidden_size, where,
          "GPT-2 needs as many key/value heads as query heads, and heads x head_dim = hidden_size; got ", c.heads, " and ", c.kv_heads,
          " heads of ", c.head_dim, ", hidden_size ", c.hidden_size);
  } else {
    check_rope(c, where);
  }
}

void set_layers(ModelConfig& c, int64_t layers) {
  c.layers = layers;
  for (std::vector<bool>* each : {&c.window_layers, &c.rotary_layers, &c.expert_layers}) {
    const std::vector<bool> pattern = *each;
    if (pattern.empty()) continue;
    each->clear();
    for (int64_t layer = 0; layer < layers; ++layer) each->push_back(pattern[size_t(layer) % pattern.size()]);
  }
}

void declare_context(ModelConfig& c, int64_t context) {
  const bool dynamic = c.rope_scaling.kind == RopeScaling::Kind::dynamic;
  constexpr double kMost = double((int64_t(1) << 31) - 1);
  const int64_t most =
      dynamic ? int64_t(std::min(kMost, c.rope_scaling.factor * double(c.rope_scaling.original_context))) : c.max_positions;
  check(1 <= context && context <= most, "context", "a context of ", context, " tokens is not possible, expected 1 to ", most);
  check(c.architecture != Architecture::gpt2 || context == c.max_positions, "context", "GPT-2's context is ", c.max_positions,
        ", the number of its learned positions; got ", context);
  c.max_positions = context;
  c.window = std::min(c.window, context);
}

}  // namespace weft
