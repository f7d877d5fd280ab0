// The weights of experts in a model folder. In memory one tensor stacks the matrices of all experts of a layer, as in newer versions of
// transformers:
//
//   model.layers.0.mlp.experts.gate_up_proj [E, 2 F, C]: for each expert the rows of gate, then those of up
//   model.layers.0.mlp.experts.down_proj    [E, C, F]
//
// Published folders, and save_pretrained, store one tensor per matrix: Qwen3-MoE experts.3.gate_proj.weight, up_proj and down_proj,
// Mixtral block_sparse_moe.experts.3.w1.weight, w3 and w2. Both forms are read; one tensor per matrix is written.
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

// The tensors of a folder that together hold the parameter `name`; empty: the folder stores it as one tensor.
std::vector<ExpertPart> expert_parts(const ModelConfig& config, const std::string& name, const Shape& shape);

// The name that published folders use for a parameter stored as one tensor, such as Mixtral's block_sparse_moe.gate.weight.
std::string published_name(const ModelConfig& config, const std::string& name);

// Dequantises MXFP4 as in the published gpt-oss: `<name>_blocks` [E, out, in / 32, 16] and `<name>_scales` [E, out, in / 32], both U8. A
// block has 32 elements along `in` and one power of two as its scale. An element has 4 bits (1 sign, 2 exponent, 1 fraction), the low half
// of a byte first. Writes the matrix of one expert as [in, out].
void mxfp4_to_floats(std::span<const uint8_t> blocks, std::span<const uint8_t> scales, int64_t in, int64_t out, float* to);

}  // namespace weft
