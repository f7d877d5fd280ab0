// Translates our tensors to those of a GGUF file and back: names with a layer's number in them, rows in another order, matrices of
// experts.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/models/config.h"

namespace weft {

// The layout of a tensor in a GGUF file (there), compared with ours (here).
enum class GgufLayout {
  same,
  // Rows of q and k: llama.cpp rotates elements 2 i and 2 i + 1 of a head together, transformers i and i + D / 2. Row 2 i + s of a head
  // there is row s D / 2 + i here.
  paired_rows,
  transposed,  // [out, in] there, [in, out] here (GPT-2)
  plus_one,    // 1 + w there, w here: the weights of an RMSNorm that computes x (1 + w)
};

// Matches `name` against the pattern `ours`, in which {} is a layer's number, and returns `theirs` with that number; nullopt: no match.
std::optional<std::string> gguf_renamed(std::string_view ours, std::string_view theirs, std::string_view name);

// Converts the values of a tensor from our layout to the file's, and back. `shape` is ours; `heads`: of a tensor with paired rows.
std::vector<float> to_gguf_layout(GgufLayout layout, const Shape& shape, int64_t heads, std::vector<float> values);
std::vector<float> from_gguf_layout(GgufLayout layout, const Shape& shape, int64_t heads, std::vector<float> values);
Shape gguf_shape(GgufLayout layout, const Shape& shape);

// The number of heads whose rows a tensor holds: those of k for a name with "k_proj".
int64_t gguf_heads(const ModelConfig& config, const std::string& name);

// A tensor of the file that holds a part of our stacked experts, [E, rows, columns], or of their biases [E, rows]: `count` rows of every
// expert, each `step`-th from `first` on; or as many columns, which are rows there.
struct GgufExpertPart {
  std::string name;
  int64_t first, count, step = 1;
  bool columns = false;
};
// The parts of our tensor `name`; empty: it holds no experts.
std::vector<GgufExpertPart> gguf_expert_parts(const ModelConfig& config, const std::string& name, const Shape& shape);
Shape gguf_part_shape(const GgufExpertPart& part, const Shape& shape);
// One expert's values, in both directions. `shape`: of our tensor of all experts.
void to_gguf_part(const GgufExpertPart& part, const Shape& shape, std::span<const float> ours, std::span<float> theirs);
void from_gguf_part(const GgufExpertPart& part, const Shape& shape, std::span<const float> theirs, std::span<float> ours);

}  // namespace weft
