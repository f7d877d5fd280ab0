#include "weft/models/gguf_layouts.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/base/parallel.h"

namespace weft {
namespace {

// Matches `text` against a pattern in which {} stands for a layer's number, and returns the number's text ("" if the pattern has no {});
// nullopt: no match.
std::optional<std::string_view> matched(std::string_view pattern, std::string_view text) {
  const size_t hole = pattern.find("{}");
  if (hole == pattern.npos) return pattern == text ? std::optional(std::string_view()) : std::nullopt;
  const std::string_view front = pattern.substr(0, hole), back = pattern.substr(hole + 2);
  if (!text.starts_with(front) || !text.ends_with(back) || text.size() <= front.size() + back.size()) return std::nullopt;
  const std::string_view layer = text.substr(front.size(), text.size() - front.size() - back.size());
  return layer.find_first_not_of("0123456789") == layer.npos ? std::optional(layer) : std::nullopt;
}

std::string filled(std::string_view pattern, std::string_view layer) {
  const size_t hole = pattern.find("{}");
  return hole == pattern.npos ? std::string(pattern) : join(pattern.substr(0, hole), layer, pattern.substr(hole + 2));
}

// Permutes the rows of each head: row 2 i + s in the file is row s D / 2 + i in the model.
std::vector<float> paired(const Shape& shape, int64_t heads, const std::vector<float>& values, bool to_pairs) {
  const int64_t rows = shape[0], width = shape.numel() / rows, half = rows / heads / 2;
  std::vector<float> out(values.size());
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t i = 0; i < half; ++i)
      for (int64_t side = 0; side < 2; ++side) {
        const int64_t theirs = head * 2 * half + 2 * i + side, ours = head * 2 * half + side * half + i;
        std::copy_n(values.begin() + (to_pairs ? ours : theirs) * width, width, out.begin() + (to_pairs ? theirs : ours) * width);
      }
  return out;
}

std::vector<float> transposed(int64_t rows, int64_t columns, const std::vector<float>& values) {
  std::vector<float> out(values.size());
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) out[size_t(column * rows + row)] = values[size_t(row * columns + column)];
  return out;
}

// Calls visit(ours, theirs) with the two indices of each element of an expert's part. Visits tiles, because one side of a transposed part
// is strided.
template <class Visit>
void for_each_element(const GgufExpertPart& part, const Shape& shape, const Visit& visit) {
  constexpr int64_t kTile = 64;
  const int64_t columns = shape.rank() == 3 ? shape[2] : 1, width = part.columns ? shape[1] : columns;
  parallel_for(ceil_div(width, kTile), available_threads(), [&](int64_t task) {
    const int64_t last = std::min(width, (task + 1) * kTile);
    for (int64_t tile = 0; tile < part.count; tile += kTile)
      for (int64_t i = task * kTile; i < last; ++i)
        for (int64_t j = tile; j < std::min(part.count, tile + kTile); ++j) {
          const int64_t at = part.first + part.step * j;
          visit(part.columns ? i * columns + at : at * columns + i, j * width + i);
        }
  });
}

}  // namespace

std::optional<std::string> gguf_renamed(std::string_view ours, std::string_view theirs, std::string_view name) {
  const auto layer = matched(ours, name);
  return layer ? std::optional(filled(theirs, *layer)) : std::nullopt;
}

Shape gguf_shape(GgufLayout layout, const Shape& shape) {
  return layout == GgufLayout::transposed && shape.rank() == 2 ? Shape{shape[1], shape[0]} : shape;
}

std::vector<float> to_gguf_layout(GgufLayout layout, const Shape& shape, int64_t heads, std::vector<float> values) {
  if (layout == GgufLayout::paired_rows) return paired(shape, heads, values, true);
  if (layout == GgufLayout::transposed && shape.rank() == 2) return transposed(shape[0], shape[1], values);
  if (layout == GgufLayout::plus_one)
    for (float& value : values) value += 1;
  return values;
}

std::vector<float> from_gguf_layout(GgufLayout layout, const Shape& shape, int64_t heads, std::vector<float> values) {
  if (layout == GgufLayout::paired_rows) return paired(shape, heads, values, false);
  if (layout == GgufLayout::transposed && shape.rank() == 2) return transposed(shape[1], shape[0], values);
  if (layout == GgufLayout::plus_one)
    for (float& value : values) value -= 1;
  return values;
}

int64_t gguf_heads(const ModelConfig& config, const std::string& name) {
  return name.find("k_proj") == name.npos ? config.heads : config.kv_heads;
}

std::vector<GgufExpertPart> gguf_expert_parts(const ModelConfig& config, const std::string& name, const Shape& shape) {
  const auto of_layer = [&](const char* ours, const char* theirs) {
    return gguf_renamed(join("model.layers.{}.mlp.experts.", ours), join("blk.{}.ffn_", theirs), name).value_or("");
  };
  const bool turns = config.clamped_experts;  // gpt-oss: gate and up alternate, and matrices are [in, out]
  if (const std::string down = of_layer("down_proj", "down_exps.weight"); !down.empty())
    return {{.name = down, .first = 0, .count = shape[turns ? 2 : 1], .columns = turns}};
  const bool biases = name.ends_with("_bias");
  const char *ours = biases ? "gate_up_proj_bias" : "gate_up_proj", *suffix = biases ? "_exps.bias" : "_exps.weight";
  const std::string gate = of_layer(ours, join("gate", suffix).c_str()), up = of_layer(ours, join("up", suffix).c_str());
  if (gate.empty()) return {};
  const int64_t half = shape[turns && !biases ? 2 : 1] / 2;
  if (!turns) return {{.name = gate, .first = 0, .count = half}, {.name = up, .first = half, .count = half}};
  return {{.name = gate, .first = 0, .count = half, .step = 2, .columns = !biases},
          {.name = up, .first = 1, .count = half, .step = 2, .columns = !biases}};
}

Shape gguf_part_shape(const GgufExpertPart& part, const Shape& shape) {
  return shape.rank() == 2 ? Shape{shape[0], part.count} : Shape{shape[0], part.count, shape[part.columns ? 1 : 2]};
}

void to_gguf_part(const GgufExpertPart& part, const Shape& shape, std::span<const float> ours, std::span<float> theirs) {
  for_each_element(part, shape, [&](int64_t our, int64_t their) { theirs[size_t(their)] = ours[size_t(our)]; });
}

void from_gguf_part(const GgufExpertPart& part, const Shape& shape, std::span<const float> theirs, std::span<float> ours) {
  for_each_element(part, shape, [&](int64_t our, int64_t their) { ours[size_t(our)] = theirs[size_t(their)]; });
}

}  // namespace weft
