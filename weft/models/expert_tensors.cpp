#include "weft/models/expert_tensors.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "weft/base/check.h"
#include "weft/base/parallel.h"

namespace weft {
namespace {

constexpr std::string_view kGateUp = "mlp.experts.gate_up_proj", kDown = "mlp.experts.down_proj", kRouter = "mlp.gate.weight",
                           kMixtral = "block_sparse_moe.";

bool splits(const ModelConfig& config) { return config.experts > 0 && !config.clamped_experts; }
bool mixtral(const ModelConfig& config) { return config.architecture == Architecture::mixtral; }

constexpr int64_t kBlock = 32;  // elements of MXFP4 per scale

// Dequantises a block of MXFP4 to elements `stride` apart. Computes twice the value times half the power of two, because the power of the
// largest scale overflows a float.
void block_to_floats(const uint8_t* halves, uint8_t scale, float* to, int64_t stride) {
  constexpr float kTwice[] = {0, 1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12};
  constexpr int kBias = 127;
  const float power = std::ldexp(1.0f, int(scale) - kBias - 1);
  for (int64_t i = 0; i < kBlock; i += 2) {
    to[i * stride] = kTwice[halves[i / 2] & 15] * power;
    to[(i + 1) * stride] = kTwice[halves[i / 2] >> 4] * power;
  }
}

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
  constexpr int64_t kRows = 64;  // per task: writes 256 bytes of each row of `to`; a tile of 32 x 64 floats stays in L1
  parallel_for(ceil_div(out, kRows), available_threads(), [&](int64_t task) {
    const int64_t first = task * kRows, rows = std::min(kRows, out - first);
    float tile[kBlock * kRows];
    for (int64_t column = 0; column < in / kBlock; ++column) {
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t block = (first + row) * (in / kBlock) + column;
        block_to_floats(&blocks[size_t(block * kBlock / 2)], scales[size_t(block)], tile + row, kRows);
      }
      for (int64_t i = 0; i < kBlock; ++i) std::copy_n(tile + i * kRows, rows, to + (column * kBlock + i) * out + first);
    }
  });
}

}  // namespace weft
