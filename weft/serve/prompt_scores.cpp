#include "weft/serve/prompt_scores.h"

#include <algorithm>
#include <cmath>

#include "weft/base/check.h"
#include "weft/base/parallel.h"
#include "weft/tensor/node.h"

namespace weft::serve {
namespace {

constexpr int64_t kChunk = 512;                    // maximum positions per step, as the engine's prompt_chunk
constexpr int64_t kMostLogits = int64_t(1) << 24;  // maximum logits per step: 64 MiB on the device and on the host

KvCache cache_for(const Model& model, const std::shared_ptr<KvPool>& pool, int64_t positions, std::string_view adapter) {
  KvCache cache(pool, 1, positions);
  cache.join(KvSequence(pool, model.adapter(adapter)));
  return cache;
}

}  // namespace

PromptScorer::PromptScorer(const Model& model, std::shared_ptr<KvPool> pool, std::shared_ptr<const std::vector<int32_t>> ids, int64_t top,
                           std::string_view adapter)
    : model_(model),
      ids_(std::move(ids)),
      top_(top),
      cache_(cache_for(model, pool, std::max<int64_t>(1, int64_t(ids_->size()) - 1), adapter)) {}

void PromptScorer::step() {
  const size_t first = scores_.size();  // first position of this step
  const int64_t vocabulary = model_.config().vocab_size, most = std::clamp<int64_t>(kMostLogits / vocabulary, 1, kChunk),
                rows = std::min<int64_t>(most, int64_t(ids_->size() - 1 - first));
  KvPass pass(cache_, rows);
  const Tensor ids = Tensor::from_host(model_.device(), {1, rows}, std::span(*ids_).subspan(first, size_t(rows)));
  const Tensor logits = model_.logits(ids, pass).reshape({rows, vocabulary});
  const std::vector<RowTerms> terms = row_terms(logits);
  for (int64_t row = 0; row < rows; ++row)
    if (const RowTerms& t = terms[size_t(row)]; !std::isfinite(t.maximum) || !std::isfinite(t.log_sum))
      fail(ErrorCode::device_fault, "prompt scores", "the logits after position ", int64_t(first) + row, " are not numbers");
  const std::vector<float> values = logits.to_host<float>();
  pass.commit();
  scores_.resize(first + size_t(rows));
  parallel_for(rows, model_.device().host_threads(), [&](int64_t row) {
    const size_t at = first + size_t(row);
    scores_[at] = token_log_probability(std::span(values).subspan(size_t(row * vocabulary), size_t(vocabulary)), terms[size_t(row)],
                                        (*ids_)[at + 1], top_);
  });
}

}  // namespace weft::serve
