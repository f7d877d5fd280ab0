// GPT-2 (Radford et al., 2019): LayerNorm before each sublayer, learned positions, a head tied to the token embedding.
#pragma once

#include "weft/models/model.h"

namespace weft {

class Gpt2 : public Model {
 public:
  Gpt2(const ModelConfig& config, Weights& weights);

 protected:
  BlockState blocks(const Tensor& ids, const Pass& pass) const override;
  Tensor final_norm(const Residual& stream) const override { return ln_f_(stream).y; }
  const Head& head() const override { return lm_head_; }

 private:
  struct Block {
    LayerNorm ln_1;
    Linear c_attn, c_proj;
    LayerNorm ln_2;
    Mlp mlp;
  };

  static Block make_block(const ModelConfig& config, Weights& weights, const std::string& prefix);
  Tensor attention(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const;
  Residual forward(const Block& block, const Residual& stream, int64_t layer, const Pass& pass) const;
  Tensor places(const Pass& pass) const;
  Tensor embed(const Tensor& ids, const Pass& pass) const;

  Tensor wte_, wpe_;
  Head lm_head_;
  std::vector<Block> blocks_;
  LayerNorm ln_f_;
};

}  // namespace weft
