// Translates tensors between the model and a GGUF file: names with a layer's number, the order of rows, matrices of experts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/models/config.h"

namespace weft {

// The layout of a tensor in a GGUF file relative to the model's.
enum class GgufLayout {
  same,
  // Rows of q and k: llama.cpp rotates elements 2 i and 2 i + 1 of a head together, transformers i and i + D / 2. Row 2 i + s of a head in
  // the file is row s D / 2 + i in the model.
  paired_rows,
  transposed,  // [out, in] in the file, [in, out] in the model (GPT-2)
  plus_one,    // 1 + w in the file, w in the model: the weights of an RMSNorm that computes x (1 + w)
};

// Matches `name` against the pattern `ours`, in which {} stands for a layer's number, and returns `theirs` with that number. nullopt: no
// match.
std::optional<std::string> gguf_renamed(std::string_view ours, std::string_view theirs, std::string_view name);

// Converts the values of a tensor from the model's layout to the file's, and back. `shape` is the model's; `heads` is used for paired_rows.
std::vector<float> to_gguf_layout(GgufLayout layout, const Shape& shape, int64_t heads, std::vector<float> values);
std::vector<float> from_gguf_layout(GgufLayout layout, const Shape& shape, int64_t heads, std::vector<float> values);
Shape gguf_shape(GgufLayout layout, const Shape& shape);

// The number of heads in the rows of a tensor: kv_heads for a name with "k_proj", else heads.
int64_t gguf_heads(const ModelConfig& config, const std::string& name);

// A tensor of the file that holds a part of the model's stacked experts [E, rows, columns], or of their biases [E, rows]: of every expert
// the `count` rows first, first + step, ...; or as many columns, which are rows in the file.
struct GgufExpertPart {
  std::string name;
  int64_t first, count, step = 1;
  bool columns = false;
};
// The parts of the model's tensor `name`; empty if it holds no experts.
std::vector<GgufExpertPart> gguf_expert_parts(const ModelConfig& config, const std::string& name, const Shape& shape);
Shape gguf_part_shape(const GgufExpertPart& part, const Shape& shape);
// Converts the values of one expert, in both directions. `shape`: that of the model's tensor with all experts.
void to_gguf_part(const GgufExpertPart& part, const Shape& shape, std::span<const float> ours, std::span<float> theirs);
void from_gguf_part(const GgufExpertPart& part, const Shape& shape, std::span<const float> theirs, std::span<float> ours);

}  // namespace weft
