#include "weft/order/trace.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/io/checksum.h"
#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft::order {

Trace::Trace(Model& model, size_t sequence) : model_(model), sequence_(sequence) {
  model_.observe([this](const Intermediate& seen) { see(seen); });
}

Trace::~Trace() { model_.observe({}); }

void Trace::see(const Intermediate& seen) {
  const auto place = std::ranges::find(places_, sequence_, &Place::sequence);
  if (place == places_.end()) return;
  const NoGrad no_grad;
  const int64_t b = place - places_.begin(), T = seen.value.shape()[1];
  const Tensor rows = contiguous(seen.value.detach().part(0, b, b + 1));
  std::vector<std::byte> bytes(size_t(rows.numel() * size_of(rows.dtype())));
  rows.read_bytes(rows.dtype(), bytes.data(), int64_t(bytes.size()));
  const Result result{seen.layer, seen.name};
  if (!hashes_.contains(result)) order_.push_back(result);
  const size_t row = bytes.size() / size_t(T);
  // A pass computes what follows the blocks for the last position alone.
  const int64_t first = T == 1 ? place->first + place->count - 1 : place->first;
  for (int64_t t = 0; t < std::min(T, place->count); ++t)
    hashes_[result][first + t] = xxh64(std::span(bytes).subspan(size_t(t) * row, row));
}

std::optional<std::string> Trace::first_difference(const Trace& other) const {
  std::optional<std::pair<int64_t, Result>> found;
  for (const Result& result : order_) {
    const auto theirs = other.hashes_.find(result);
    if (theirs == other.hashes_.end()) continue;
    for (const auto& [position, hash] : hashes_.at(result)) {
      const auto same = theirs->second.find(position);
      if (same == theirs->second.end() || same->second == hash) continue;
      if (!found || position < found->first) found = {position, result};
      break;
    }
  }
  if (!found) return std::nullopt;
  const auto& [layer, name] = found->second;
  const bool after = layer == model_.config().layers;
  return join("position ", found->first, ": ", after ? "after the last layer" : join("layer ", layer), ", ", name);
}

}  // namespace weft::order
