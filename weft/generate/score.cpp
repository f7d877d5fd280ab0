#include "weft/generate/score.h"

#include <algorithm>
#include <span>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/ops/fill/fill.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr const char* kWhere = "score";

// Positions of a pass: the last token predicts nothing.
int64_t positions_of(const ScoredPair& pair) { return int64_t(pair.prompt.size() + pair.completion.size()) - 1; }

void check_pair(const Model& model, const ScoredPair& pair, size_t index) {
  const int64_t context = model.config().max_positions, vocabulary = model.config().vocab_size;
  check(!pair.prompt.empty(), kWhere, "the prompt of pair ", index, " is empty");
  for (const auto* ids : {&pair.prompt, &pair.completion})
    for (int32_t id : *ids)
      check(id >= 0 && id < vocabulary, kWhere, "pair ", index, " has token ", id, ", the vocabulary ends at ", vocabulary - 1);
  check(positions_of(pair) <= context, kWhere, "pair ", index, " has ", pair.prompt.size(), " and ", pair.completion.size(),
        " tokens, which do not fit in the model's context of ", context);
}

// Scores the pairs of one pass: targets that are not of a completion are padding, which has no loss.
void score_pass(const Model& model, std::span<const ScoredPair> pairs, int adapter, std::vector<std::vector<float>>& scores) {
  int64_t T = 1;
  for (const ScoredPair& pair : pairs) T = std::max(T, positions_of(pair));
  const int64_t B = int64_t(pairs.size()), padding = model.config().vocab_size;
  std::vector<int32_t> ids(size_t(B * T), 0), targets(size_t(B * T), int32_t(padding));
  for (size_t b = 0; b < pairs.size(); ++b) {
    const auto& [prompt, completion] = pairs[b];
    const auto row = ids.begin() + int64_t(b) * T;
    const auto end = std::ranges::copy(prompt, row).out;
    if (completion.empty()) continue;
    std::copy(completion.begin(), completion.end() - 1, end);
    std::ranges::copy(completion, targets.begin() + int64_t(b) * T + int64_t(prompt.size()) - 1);
  }
  Device& device = model.device();
  const Tensor losses = Tensor::empty(device, {B, T});
  model.loss(Tensor::from_host(device, {B, T}, ids), Tensor::from_host(device, {B, T}, targets),
             {.pad_id = padding, .count = full(device, {}, 1), .losses = losses, .adapter = adapter});
  const auto values = losses.to_host<float>();
  for (size_t b = 0; b < pairs.size(); ++b) {
    auto& of = scores.emplace_back();
    const size_t first = b * size_t(T) + pairs[b].prompt.size() - 1;
    for (size_t i = 0; i < pairs[b].completion.size(); ++i) of.push_back(-values[first + i]);
  }
}

}  // namespace

std::vector<std::vector<float>> score(const Model& model, const std::vector<ScoredPair>& pairs, const ScoreOptions& options) {
  check(options.batch >= 1 && options.pass_tokens >= 1, kWhere, "batch is ", options.batch, " and pass_tokens ", options.pass_tokens,
        ", expected 1 or more");
  for (size_t i = 0; i < pairs.size(); ++i) check_pair(model, pairs[i], i);
  const int adapter = model.adapter(options.adapter);
  const NoGrad no_grad;
  std::vector<std::vector<float>> scores;
  for (size_t first = 0; first < pairs.size();) {
    report_progress({.what = "pair", .done = int64_t(first), .total = int64_t(pairs.size())});
    int64_t longest = 0;
    size_t last = first;
    while (last < pairs.size() && int64_t(last - first) < options.batch) {
      longest = std::max(longest, positions_of(pairs[last]));
      if (last > first && int64_t(last - first + 1) * longest > options.pass_tokens) break;
      ++last;
    }
    score_pass(model, std::span(pairs).subspan(first, last - first), adapter, scores);
    first = last;
  }
  return scores;
}

}  // namespace weft
