// The weights of experts in a folder. A model has the matrices of all experts of a layer in one tensor, as newer versions of transformers
// have in memory:
//
//   model.layers.0.mlp.experts.gate_up_proj [E, 2 F, C]: of each expert the rows of gate, then those of up
//   model.layers.0.mlp.experts.down_proj    [E, C, F]
//
// Published folders, and save_pretrained, have a tensor for each matrix: Qwen3-MoE experts.3.gate_proj.weight, up_proj and down_proj,
// Mixtral block_sparse_moe.experts.3.w1.weight, w3 and w2. Both are read; one tensor for each matrix is written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/base/shape.h"
#include "weft/models/config.h"

namespace weft {

// The tensor `name` holds the rows [first, last) of matrix `expert`.
struct ExpertPart {
  std::string name;
  int64_t expert, first, last;
};

// The tensors of a folder that hold the parameter `name` of this shape; empty: the folder stores it as one tensor, as we do.
std::vector<ExpertPart> expert_parts(const ModelConfig& config, const std::string& name, const Shape& shape);

// The name in published folders of a parameter that is stored as one tensor: Mixtral's block_sparse_moe.gate.weight.
std::string published_name(const ModelConfig& config, const std::string& name);

// MXFP4, as gpt-oss is published (`<name>_blocks` [E, out, in / 32, 16] and `<name>_scales` [E, out, in / 32], both U8): blocks of 32
// elements along `in`, each half a byte (the low half first) of a sign, two bits of exponent and one of fraction, and a power of two for
// each block. Writes one expert's matrix as [in, out].
void mxfp4_to_floats(std::span<const uint8_t> blocks, std::span<const uint8_t> scales, int64_t in, int64_t out, float* to);

}  // namespace weft
