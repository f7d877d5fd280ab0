// Llama (Touvron et al., 2023), and with it SmolLM, Qwen2 (biases on q, k, v) and Qwen3 (norms on the heads of q and k).
#pragma once

#include <map>

#include "weft/models/model.h"
#include "weft/ops/rope/rope_table.h"

namespace weft {

class Llama : public Model {
 public:
  Llama(const ModelConfig& config, Weights& weights);

 protected:
  Residual blocks(const Tensor& ids, const Pass& pass) const override;
  Tensor final_norm(const Residual& stream) const override { return norm_(stream).y; }
  const Tensor& head() const override { return lm_head_; }

 private:
  struct Block {
    RmsNorm input_norm;
    Linear q, k, v, o;
    JointLinear qkv;
    RmsNorm q_norm, k_norm;  // Qwen3
    RmsNorm post_attention_norm;
    GatedMlp mlp;
  };

  static Block make_block(const ModelConfig& config, Weights& weights, const std::string& prefix);
  Tensor attention(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const;
  Tensor heads(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const;
  Tensor joint_heads(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const;
  Residual forward(const Block& block, const Residual& stream, int64_t layer, const Pass& pass) const;
  const RopeTable& rope_for(const Pass& pass) const;

  Tensor embed_tokens_, lm_head_;
  std::vector<Block> blocks_;
  RmsNorm norm_;
  mutable std::map<int64_t, RopeTable> rope_;  // by the positions it covers; kept, for a captured step may read it
};

}  // namespace weft
