#include "weft/models/expert_tensors.h"

#include <cmath>
#include <string_view>

#include "weft/base/check.h"

namespace weft {
namespace {

constexpr std::string_view kGateUp = "mlp.experts.gate_up_proj", kDown = "mlp.experts.down_proj", kRouter = "mlp.gate.weight",
                           kMixtral = "block_sparse_moe.";

bool splits(const ModelConfig& config) { return config.experts > 0 && !config.clamped_experts; }
bool mixtral(const ModelConfig& config) { return config.architecture == Architecture::mixtral; }

}  // namespace

std::vector<ExpertPart> expert_parts(const ModelConfig& config, const std::string& name, const Shape& shape) {
  const bool gate_up = name.ends_with(kGateUp);
  if (!splits(config) || (!gate_up && !name.ends_with(kDown))) return {};
  const std::string layer = name.substr(0, name.size() - (gate_up ? kGateUp : kDown).size());
  const std::string experts = join(layer, mixtral(config) ? kMixtral : "mlp.", "experts.");
  const int64_t rows = shape[1];
  std::vector<ExpertPart> parts;
  const auto add = [&](int64_t e, const char* theirs, const char* of_mixtral, int64_t first, int64_t last) {
    parts.push_back({join(experts, e, ".", mixtral(config) ? of_mixtral : theirs, ".weight"), e, first, last});
  };
  for (int64_t e = 0; e < shape[0]; ++e) {
    if (!gate_up) add(e, "down_proj", "w2", 0, rows);
    if (gate_up) add(e, "gate_proj", "w1", 0, rows / 2), add(e, "up_proj", "w3", rows / 2, rows);
  }
  return parts;
}

std::string published_name(const ModelConfig& config, const std::string& name) {
  if (!mixtral(config) || !name.ends_with(kRouter)) return name;
  return join(name.substr(0, name.size() - kRouter.size()), kMixtral, "gate.weight");
}

void mxfp4_to_floats(std::span<const uint8_t> blocks, std::span<const uint8_t> scales, int64_t in, int64_t out, float* to) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
  constexpr int kBias = 127;
  for (int64_t row = 0; row < out; ++row)
    for (int64_t i = 0; i < in; ++i) {
      const int64_t block = row * (in / 32) + i / 32;
      const uint8_t two = blocks[size_t(block * 16 + i % 32 / 2)];
      to[i * out + row] = std::ldexp(kValues[i % 2 ? two >> 4 : two & 15], int(scales[size_t(block)]) - kBias);
    }
}

}  // namespace weft
