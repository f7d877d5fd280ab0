#include "weft/generate/log_probability.h"

#include <algorithm>
#include <numeric>

#include "weft/ops/cross_entropy/cross_entropy.h"

namespace weft {

std::vector<RowTerms> row_terms(const Tensor& logits) {
  const LogProbabilityTerms terms = log_probability_terms(logits);
  const auto maxima = terms.maxima.to_host<float>(), log_sums = terms.log_sums.to_host<float>();
  std::vector<RowTerms> rows;
  for (size_t r = 0; r < maxima.size(); ++r) rows.push_back({maxima[r], log_sums[r]});
  return rows;
}

TokenLogProbability token_log_probability(std::span<const float> logits, RowTerms terms, int32_t id, int64_t top) {
  const auto of = [&](int32_t token) {
    return IdLogProbability{token, log_probability(logits[size_t(token)], terms.maximum, terms.log_sum)};
  };
  TokenLogProbability result{of(id), {}};
  if (top <= 0) return result;
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min(top, int64_t(ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[size_t(a)], y = logits[size_t(b)];
    return x != y ? x > y : a < b;
  });
  std::transform(ids.begin(), end, std::back_inserter(result.top), of);
  return result;
}

}  // namespace weft
