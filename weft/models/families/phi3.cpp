// Phi-3 and Phi-4-mini: Llama with q, k and v in one tensor and gate and up in another, longrope, and optionally partial rotary heads.
#include "weft/models/families/keys.h"

namespace weft {
namespace {

void read(const JsonNode& root, ModelConfig& c) {
  keys::read_decoder(root, c, {.norm_eps = 1e-5, .pad_id = 32000});
  c.fused_projections = true;
  for (const char* key : {"resid_pdrop", "embd_pdrop"})
    if (root.number_or(key, 0) != 0) root.at(key).unsupported("is ", root.at(key).number(), "; only 0 is supported");
  // The published 128k model has a window of twice its context, which has no effect.
  const auto window = root.find("sliding_window");
  if (window && window->integer(1, keys::kMost) > c.max_positions) return;
  keys::read_window(root, c, 0);
}

// transformers 4 accepts only these three keys and computes the attention factor from the two contexts.
keys::Ordered longrope(const ModelConfig& c) {
  const RopeScaling& s = c.rope_scaling;
  keys::Ordered out = {{"type", "longrope"}, {"short_factor", s.short_factors}, {"long_factor", s.long_factors}};
  const double factor = double(c.max_positions) / double(s.original_context);
  if (s.factor == factor && s.attention_factor == keys::longrope_attention_factor(factor, s.original_context)) return out;
  out["factor"] = s.factor;
  out["attention_factor"] = s.attention_factor;
  return out;
}

void write(const ModelConfig& c, keys::Ordered& out) {
  keys::write_decoder(c, out);
  if (c.rope_scaling.kind == RopeScaling::Kind::longrope) out["rope_scaling"] = longrope(c);
  keys::write_window(c, out);
  out["partial_rotary_factor"] = c.rotary_fraction;
  if (c.rope_scaling.original_context > 0) out["original_max_position_embeddings"] = c.rope_scaling.original_context;
  out["resid_pdrop"] = out["embd_pdrop"] = 0.0;
}

}  // namespace

const Family kPhi3Family{Architecture::phi3, "phi3", "Phi3ForCausalLM", read, write, /*code_in_folder=*/true};

}  // namespace weft
