#include <algorithm>
#include <iterator>

#include "weft/base/check.h"
#include "weft/data/dataset.h"

namespace weft {

int64_t TokenBatch::counted() const { return int64_t(targets.size()) - std::count(targets.begin(), targets.end(), kIgnored); }

std::vector<float> TokenBatch::real() const {
  std::vector<float> real(targets.size(), 0);
  for (int64_t row = 0; row < rows; ++row) {
    const auto begin = targets.begin() + row * tokens, end = begin + tokens;
    const auto last = std::find_if(std::reverse_iterator(end), std::reverse_iterator(begin), [](int32_t t) { return t != kIgnored; });
    std::fill_n(real.begin() + row * tokens, last.base() - begin, 1.0f);
  }
  return real;
}

double TokenBatch::attended_pairs() const {
  if (documents.empty()) return double(rows) * causal_pairs(double(tokens));
  double pairs = 0;
  for (size_t d = 0; d < documents.size(); ++d)
    pairs += causal_pairs(double((d + 1 < documents.size() ? documents[d + 1] : int64_t(ids.size())) - documents[d]));
  return pairs;
}

Tensor TokenBatch::upload_ids(Device& device) const { return Tensor::from_host(device, {rows, tokens}, ids); }
Tensor TokenBatch::upload_targets(Device& device) const { return Tensor::from_host(device, {rows, tokens}, targets); }

std::vector<int32_t> TokenBatch::document_bounds() const {
  if (documents.empty()) return {};
  const auto count = int64_t(documents.size()), capacity = std::max(document_capacity, count);
  check(int64_t(ids.size()) <= INT32_MAX, "data", "a batch of documents has ", ids.size(), " tokens, expected at most ", INT32_MAX);
  std::vector<int32_t> bounds(size_t(capacity) + 1, int32_t(ids.size()));
  std::copy(documents.begin(), documents.end(), bounds.begin());
  return bounds;
}

Tensor TokenBatch::upload_documents(Device& device) const {
  const std::vector<int32_t> bounds = document_bounds();
  return bounds.empty() ? Tensor() : Tensor::from_host(device, {int64_t(bounds.size())}, bounds);
}

TokenBatch stacked(std::span<const TokenBatch> sequences) {
  TokenBatch all{.rows = 0, .tokens = sequences.front().tokens, .ids = {}, .targets = {}};
  const bool packed = std::any_of(sequences.begin(), sequences.end(), [](const TokenBatch& each) { return !each.documents.empty(); });
  for (const TokenBatch& each : sequences) {
    const auto before = int64_t(all.ids.size());
    if (packed && each.documents.empty())
      for (int64_t row = 0; row < each.rows; ++row) all.documents.push_back(before + row * each.tokens);
    for (int64_t begin : each.documents) all.documents.push_back(before + begin);
    all.document_capacity += each.documents.empty() && packed ? each.rows : each.document_capacity;
    all.rows += each.rows;
    all.ids.insert(all.ids.end(), each.ids.begin(), each.ids.end());
    all.targets.insert(all.targets.end(), each.targets.begin(), each.targets.end());
  }
  return all;
}

}  // namespace weft
