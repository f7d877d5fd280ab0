#include "weft/train/gradient_exchange.h"

#include <algorithm>

#include "weft/autograd/backward.h"
#include "weft/base/check.h"
#include "weft/device/memory_use.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/functions.h"

namespace weft {
namespace {

constexpr size_t kUnderWay = 4;  // parcels: with 1 Mi elements each, 16 MiB of buffers

std::unordered_map<const Node*, size_t> indices_of(const std::vector<Parameter>& parameters) {
  std::unordered_map<const Node*, size_t> indices;
  for (size_t i = 0; i < parameters.size(); ++i) indices[parameters[i].tensor.node().get()] = i;
  return indices;
}

std::vector<size_t> buckets_of(const ParameterShards& shards) {
  std::vector<size_t> buckets(shards.parameters());
  for (size_t b = 0; b < shards.buckets().size(); ++b)
    for (size_t i = shards.buckets()[b].first; i < shards.buckets()[b].end; ++i) buckets[i] = b;
  return buckets;
}

}  // namespace

GradientExchange::GradientExchange(Communicator& ranks, const Optimizer& optimizer, const ParameterShards& shards, int64_t parcel_elements)
    : ranks_(ranks),
      parameters_(optimizer.parameters()),
      shards_(shards),
      elements_(std::max<int64_t>(1, parcel_elements / ranks.size())),
      index_(indices_of(parameters_)),
      bucket_of_(buckets_of(shards)) {}

void GradientExchange::release_gradients(std::vector<Tensor> sums) { sums_ = std::move(sums); }

void GradientExchange::set_additions(std::vector<int> additions) {
  check(additions.empty() || additions.size() == parameters_.size(), "gradient_exchange", "got ", additions.size(), " numbers for ",
        parameters_.size(), " parameters");
  expected_ = std::move(additions);
}

void GradientExchange::before_addition(const Node& leaf) {
  if (leaf.grad) return;
  if (const auto found = index_.find(&leaf); found != index_.end()) zero_grad(parameters_[found->second].tensor);
}

void GradientExchange::added(const Node& leaf) {
  const auto found = index_.find(&leaf);
  if (found == index_.end()) return;  // not trained
  const size_t i = found->second;
  ++seen_[i];
  if (!sends_ || expected_.empty()) return;
  check(seen_[i] <= expected_[i], "gradient_exchange", "the gradient of ", parameters_[i].name, " had ", expected_[i],
        " additions in the first backward pass and has more in this one: part of it has left already");
  for (UnderWay& each : under_way_) each.transfer->progress();
  if (seen_[i] < expected_[i]) return;
  --missing_[bucket_of_[i]];
  while (left_ > 0 && missing_[left_ - 1] == 0) leave(--left_);
}

void GradientExchange::begin() {
  seen_.assign(parameters_.size(), 0);
  missing_.assign(shards_.buckets().size(), 0);
  left_ = missing_.size();
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (expected_.empty() || expected_[i] > 0) ++missing_[bucket_of_[i]];
}

void GradientExchange::remember_additions() {
  if (expected_.empty()) expected_ = seen_;
}

void GradientExchange::watch(const std::function<void()>& backward) {
  begin();
  sends_ = false;
  const WatchLeaves watching(*this);
  backward();
  remember_additions();
}

void GradientExchange::sum(const std::function<void()>& backward, int senders, const std::function<void(size_t)>& complete) {
  begin();
  sends_ = true;
  senders_ = senders;
  complete_ = complete;
  if (backward) {
    const WatchLeaves watching(*this);
    backward();
    remember_additions();
  }
  while (left_ > 0) leave(--left_);
  while (!under_way_.empty()) finish_first();
}

std::vector<GradientExchange::Parcel> GradientExchange::parcels_of(size_t bucket) const {
  int64_t longest = 0;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    int64_t owned = 0;
    for (size_t i = shards_.buckets()[bucket].first; i < shards_.buckets()[bucket].end; ++i) owned += shards_.range(i, rank).count;
    longest = std::max(longest, owned);
  }
  std::vector<Parcel> parcels;
  for (int64_t first = 0; first < longest; first += elements_) parcels.push_back({bucket, first, first + elements_ >= longest});
  return parcels;
}

// The elements [first, first + elements_) of the rank's range of the bucket.
std::vector<GradientExchange::Part> GradientExchange::parts(const Parcel& parcel, int rank) const {
  std::vector<Part> all;
  int64_t before = 0;
  const auto [from, end] = shards_.buckets()[parcel.bucket];
  for (size_t i = from; i < end; ++i) {
    const Range owned = shards_.range(i, rank);
    const int64_t start = std::max<int64_t>(0, parcel.first - before);
    const int64_t stop = std::min(owned.count, parcel.first + elements_ - before);
    if (start < stop) all.push_back({i, {owned.first + start, stop - start}});
    before += owned.count;
  }
  return all;
}

void GradientExchange::leave(size_t bucket) {
  for (size_t i = shards_.buckets()[bucket].first; i < shards_.buckets()[bucket].end; ++i) {
    if (ranks_.rank() >= senders_) break;  // there is no gradient of this rank
    const Tensor& p = parameters_[i].tensor;
    if (!p.grad()) zero_grad(p);  // nothing in the loss depends on it
    if (complete_) complete_(i);
  }
  for (const Parcel& parcel : parcels_of(bucket)) start(parcel);
}

void GradientExchange::start(const Parcel& parcel) {
  if (under_way_.size() >= kUnderWay) finish_first();
  UnderWay next{parcel, std::vector<Tensor>(size_t(ranks_.size())), nullptr};
  std::vector<Outgoing> send;
  std::vector<Incoming> receive;
  const std::vector<Part> own = parts(parcel, ranks_.rank());
  int64_t elements = 0;
  for (const Part& part : own) elements += part.range.count;
  Device& device = parameters_.front().tensor.device();
  const MemoryScope scope(device, MemoryUse::gradients);
  for (int other = 0; other < ranks_.size(); ++other) {
    if (other == ranks_.rank()) continue;
    if (ranks_.rank() < senders_)
      for (const Part& part : parts(parcel, other))
        send.push_back({other, range_of(parameters_[part.parameter].tensor.grad(), part.range).view()});
    if (other >= senders_ || elements == 0) continue;
    const Tensor& buffer = next.received[size_t(other)] = Tensor::empty(device, {elements});
    int64_t at = 0;
    for (const Part& part : own) {
      receive.push_back({other, buffer.part(0, at, at + part.range.count).mut_view()});
      at += part.range.count;
    }
  }
  next.transfer = ranks_.start(device.stream(), send, receive);
  under_way_.push_back(std::move(next));
}

// Adds by the tree over the index. The sum is in one of the values.
Tensor GradientExchange::sum_of_ranks(std::vector<Tensor>& values) const {
  const size_t own = size_t(ranks_.rank());
  size_t kept = own;  // the index whose tensor is this rank's own memory
  for (size_t width = 1; width < values.size(); width *= 2)
    for (size_t left = 0; left + width < values.size(); left += 2 * width) {
      const size_t right = left + width;
      if (right == kept) std::swap(values[left], values[right]), kept = left;  // a + b is b + a: the sum stays in our own memory
      add_assign(values[left], values[right]);
    }
  return values[0];
}

void GradientExchange::finish_first() {
  UnderWay& first = under_way_.front();
  first.transfer->wait();
  const NoGrad no_grad;
  int64_t at = 0;
  for (const Part& part : parts(first.parcel, ranks_.rank())) {
    std::vector<Tensor> values;
    for (int rank = 0; rank < senders_; ++rank)
      values.push_back(rank == ranks_.rank() ? range_of(parameters_[part.parameter].tensor.grad(), part.range)
                                             : first.received[size_t(rank)].part(0, at, at + part.range.count));
    const Tensor sum = sum_of_ranks(values);
    at += part.range.count;
    if (sums_.empty()) continue;
    const Range owned = shards_.range(part.parameter, ranks_.rank());
    copy(sum, range_of(sums_[part.parameter], {part.range.first - owned.first, part.range.count}));
  }
  if (!sums_.empty() && first.parcel.last)
    for (size_t i = shards_.buckets()[first.parcel.bucket].first; i < shards_.buckets()[first.parcel.bucket].end; ++i)
      parameters_[i].tensor.clear_grad();
  under_way_.pop_front();
}

void GradientExchange::gather(const std::function<Tensor(size_t)>& tensor) {
  Stream& stream = parameters_.front().tensor.device().stream();
  std::deque<std::unique_ptr<Transfer>> under_way;
  const auto finish = [&] {
    under_way.front()->wait();
    under_way.pop_front();
  };
  for (size_t bucket = 0; bucket < shards_.buckets().size(); ++bucket)
    for (const Parcel& parcel : parcels_of(bucket)) {
      std::vector<Outgoing> send;
      std::vector<Incoming> receive;
      const std::vector<Part> own = parts(parcel, ranks_.rank());
      for (int other = 0; other < ranks_.size(); ++other) {
        if (other == ranks_.rank()) continue;
        for (const Part& part : own) send.push_back({other, range_of(tensor(part.parameter), part.range).view()});
        for (const Part& part : parts(parcel, other)) receive.push_back({other, range_of(tensor(part.parameter), part.range).mut_view()});
      }
      if (under_way.size() >= kUnderWay) finish();
      under_way.push_back(ranks_.start(stream, send, receive));
    }
  while (!under_way.empty()) finish();
}

void GradientExchange::gather_gradients() {
  gather([&](size_t i) { return parameters_[i].tensor.grad(); });
}

void GradientExchange::gather_weights() {
  gather([&](size_t i) { return parameters_[i].tensor; });
}

}  // namespace weft
