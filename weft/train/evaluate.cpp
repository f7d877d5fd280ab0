#include "weft/train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "weft/generate/generator.h"
#include "weft/nn/kv_cache.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"
#include "weft/train/step.h"

namespace weft {
namespace {

// The likeliest id of each row, the lowest among equals.
std::vector<int32_t> likeliest(const Tensor& logits) {
  const int64_t rows = logits.shape()[0], V = logits.shape()[1];
  const std::vector<float> values = logits.to_host<float>();
  std::vector<int32_t> ids;
  for (int64_t r = 0; r < rows; ++r) {
    const auto row = values.begin() + r * V;
    ids.push_back(int32_t(std::max_element(row, row + V) - row));
  }
  return ids;
}

std::vector<int32_t> continue_greedily(const Model& model, std::span<const int32_t> prompts, int64_t rows, int64_t tokens, int64_t count) {
  KvCache cache = model.make_cache(rows, tokens + count);
  std::vector<int32_t> out(size_t(rows * count));
  std::vector<int32_t> next = likeliest(model.last_logits(Tensor::from_host(model.device(), {rows, tokens}, prompts), cache));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t r = 0; r < rows; ++r) out[size_t(r * count + i)] = next[size_t(r)];
    if (i + 1 < count) next = likeliest(model.last_logits(Tensor::from_host(model.device(), {rows, 1}, next), cache));
  }
  return out;
}

}  // namespace

double validation_loss(const Model& model, const Dataset& data, int64_t units) {
  const NoGrad no_grad;
  const int64_t count = units > 0 ? std::min(units, data.validation_units()) : data.validation_units();
  if (count == 0) return NAN;
  const Tensor one = full(model.device(), {}, 1);
  double sum = 0, targets = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Unit unit = data.validation_unit(i);
    const Tensor loss = model.loss(upload_ids(model.device(), unit, unit.ids), upload_ids(model.device(), unit, unit.targets), {.pad_id = kIgnored, .count = one});
    sum += loss.item<float>();
    targets += double(unit.counted());
  }
  return sum / targets;
}

double sums_accuracy(const Model& model, const SumsDataset& sums) {
  return exact_match(sums, [&](std::span<const int32_t> prompts, int64_t rows, int64_t tokens, int64_t count) {
    return continue_greedily(model, prompts, rows, tokens, count);
  });
}

std::string sample_text(const Model& model, const Vocabulary& vocabulary, const std::vector<int32_t>& prompt, const SampleOptions& options) {
  const int64_t room = model.config().max_positions - int64_t(prompt.size());
  GenerateOptions generate{.sampling = {.temperature = options.temperature, .seed = options.seed}, .max_tokens = std::min(options.tokens, room)};
  Generator generator(model, generate);
  return vocabulary.decode(generator.run({prompt}).at(0).ids);
}

}  // namespace weft
