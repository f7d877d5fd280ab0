// The decode step of a block with the fused kernels of a device: six launches (seven with norms of heads), with the bits of Llama::forward.
#include <algorithm>
#include <array>

#include "weft/models/llama.h"
#include "weft/ops/norm_gated/norm_gated.h"
#include "weft/ops/norm_heads/norm_heads.h"

namespace weft {
namespace {

bool plain(std::initializer_list<const Linear*> layers) {
  return std::ranges::none_of(layers, [](const Linear* l) { return l->adapter || l->int8; });
}
View view_of(const Tensor& x) { return x ? x.view() : View(); }

}  // namespace

// Whether the kernels support the block and the number of rows.
bool Llama::decodes_fused(const Block& b, int64_t layer, const Pass& pass) const {
  const ModelConfig& c = config();
  const Kernels& kernels = device().kernels();
  const bool few = pass.kv && pass.adapters.empty() && pass.T == 1 && dtype() == DType::bf16 && kernels.norm_heads.supported() &&
                   kernels.norm_gated.supported() && NormHeadsArgs::takes(pass.B, c.hidden_size, c.head_dim) &&
                   NormGatedArgs::takes(pass.B, c.hidden_size);
  const bool norms = c.norms == NormPlaces::before && !c.norm_adds_one && !c.qk_norm_whole && c.residual_scale == 1;
  const bool turned = !c.has_rope(layer) || (c.rotary_dims() == c.head_dim && c.query_growth == 0);
  return few && norms && turned && !b.experts && !b.sinks && !c.fused_projections && c.activation == HiddenActivation::silu &&
         plain({&b.q, &b.k, &b.v, &b.o, &b.mlp.gate, &b.mlp.up, &b.mlp.down});
}

Residual Llama::decode_fused(const Block& b, const Residual& stream, int64_t layer, const Pass& pass) const {
  const ModelConfig& c = config();
  const int64_t B = pass.B, C = c.hidden_size, H = c.heads, D = c.head_dim, F = c.intermediate_size;
  const auto fresh = [&](Shape shape) { return Tensor::empty(device(), shape, dtype()); };
  const auto rows = [&](const Tensor& x) { return x ? x.reshape({B, C}) : x; };
  const Tensor x = rows(stream.x), delta = rows(stream.delta), h = delta ? fresh({B, C}) : Tensor(), q = fresh({B, H, D});
  const Tensor keys = pass.kv->keys(layer), values = pass.kv->values(layer), start = pass.kv->start(), pages = pass.kv->pages();
  const RopeTable* const turn = c.has_rope(layer) ? &rope_for(pass, layer) : nullptr;
  norm_heads(device().stream(), {.x = x.view(),
                                 .delta = view_of(delta),
                                 .w = b.before_attention.weight.view(),
                                 .q_weight = b.q.weight.view(),
                                 .k_weight = b.k.weight.view(),
                                 .v_weight = b.v.weight.view(),
                                 .q_bias = view_of(b.q.bias),
                                 .k_bias = view_of(b.k.bias),
                                 .v_bias = view_of(b.v.bias),
                                 .q_norm = view_of(b.q_norm.weight),
                                 .k_norm = view_of(b.k_norm.weight),
                                 .cos = turn ? turn->cos.view() : View(),
                                 .sin = turn ? turn->sin.view() : View(),
                                 .start = start.view(),
                                 .h = h ? h.mut_view() : MutView(),
                                 .q = q.mut_view(),
                                 .k_cache = keys.mut_view(),
                                 .v_cache = values.mut_view(),
                                 .pages = view_of(pages),
                                 .eps = b.before_attention.eps});
  const Tensor entered = (h ? h : x).reshape({B, 1, C});
  pass.see(layer, "residual", entered);
  const Tensor o = attend_cached(q.reshape({B, 1, H, D}), pass, attend_options(b, layer));
  pass.see(layer, "attention", o);
  const Tensor a = apply_each(std::array{&b.o}, o.reshape({B, 1, H * D}))[0];
  pass.see(layer, "o_proj", a);

  const Tensor between = fresh({B, 1, C}), gated = fresh({B, 1, F}), after = rows(a), before = rows(entered);
  norm_gated(device().stream(), {.x = before.view(),
                                 .delta = after.view(),
                                 .w = b.before_mlp.weight.view(),
                                 .gate = b.mlp.gate.weight.view(),
                                 .up = b.mlp.up.weight.view(),
                                 .gate_bias = view_of(b.mlp.gate.bias),
                                 .up_bias = view_of(b.mlp.up.bias),
                                 .h = rows(between).mut_view(),
                                 .y = gated.reshape({B, F}).mut_view(),
                                 .eps = b.before_mlp.eps});
  pass.see(layer, "residual with attention", between);
  pass.see(layer, "gated", gated);
  const Tensor y = apply_each(std::array{&b.mlp.down}, gated)[0];
  pass.see(layer, "down_proj", y);
  return {between, y};
}

}  // namespace weft
