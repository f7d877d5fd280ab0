// The decoder of Llama (Touvron et al., 2023) and of the families derived from it (weft/models/families). Their differences are fields of
// ModelConfig.
#pragma once

#include <map>

#include "weft/models/model.h"
#include "weft/ops/rope/rope_table.h"

namespace weft {

class Llama : public Model {
 public:
  Llama(const ModelConfig& config, Weights& weights);

 protected:
  BlockState blocks(const Tensor& ids, const Pass& pass) const override;
  Tensor final_norm(const Residual& stream) const override { return norm_(stream).y; }
  const Head& head() const override { return lm_head_; }

 private:
  struct Block {
    RmsNorm before_attention, after_attention, before_mlp, after_mlp;  // undefined if the family has no norm there
    Linear q, k, v, o;
    JointLinear qkv;
    Linear fused_qkv;  // Phi-3: replaces q, k and v
    RmsNorm q_norm, k_norm;
    GatedMlp mlp;
    Experts experts;  // replaces mlp
    Tensor sinks;
  };
  enum class Positions { all, local, queries };  // RoPE table of all layers, of those with a window, of queries with query_growth

  static Block make_block(const ModelConfig& config, Weights& weights, int64_t layer);
  static void make_projections(const ModelConfig& config, Weights& weights, const std::string& prefix, Block& block);
  static void make_mlp(const ModelConfig& config, Weights& weights, const std::string& prefix, Block& block);
  static void make_experts(const ModelConfig& config, Weights& weights, const std::string& prefix, Block& block);
  static void make_norms(const ModelConfig& config, Weights& weights, const std::string& prefix, Block& block);
  Tensor attention(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const;
  Tensor heads(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const;
  Tensor joint_heads(const Block& block, const Tensor& x, int64_t layer, const Pass& pass) const;
  AttendOptions attend_options(const Block& block, int64_t layer) const;
  bool decodes_fused(const Block& block, int64_t layer, const Pass& pass) const;
  Residual decode_fused(const Block& block, const Residual& stream, int64_t layer, const Pass& pass) const;
  BlockState forward(const Block& block, const BlockState& stream, int64_t layer, const Pass& pass) const;
  Tensor embed(const Tensor& ids) const;
  const RopeTable& rope_for(const Pass& pass, Positions which) const;
  const RopeTable& rope_for(const Pass& pass, int64_t layer) const;

  Tensor embed_tokens_;
  Head lm_head_;
  std::vector<Block> blocks_;
  RmsNorm norm_;
  mutable std::map<std::pair<Positions, int64_t>, RopeTable>
      rope_;  // key: kind and positions covered; never erased, because a captured step may read it
};

}  // namespace weft
