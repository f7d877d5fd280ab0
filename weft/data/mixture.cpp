#include "weft/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/base/check.h"
#include "weft/data/permutation.h"

namespace weft {
namespace {

// Sequences of an epoch for each part: the largest remainders are rounded up (Hamilton's method), earlier parts first among equals.
std::vector<int64_t> shares_of(const std::vector<MixturePart>& parts, int64_t sequences) {
  double sum = 0;
  for (const MixturePart& part : parts) sum += part.weight;
  std::vector<int64_t> counts;
  std::vector<double> rests;
  for (const MixturePart& part : parts) {
    const double share = double(sequences) * (part.weight / sum);
    counts.push_back(int64_t(share));
    rests.push_back(share - std::floor(share));
  }
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return rests[a] > rests[b]; });
  const int64_t missing = sequences - std::accumulate(counts.begin(), counts.end(), int64_t(0));
  for (int64_t i = 0; i < missing; ++i) ++counts[order[size_t(i) % order.size()]];
  return counts;
}

class Mixture : public Dataset {
 public:
  Mixture(std::vector<MixturePart> parts, uint64_t seed) : parts_(std::move(parts)), seed_(seed) {
    for (const MixturePart& part : parts_) sequences_ += part.data->sequences_per_epoch();
    counts_ = shares_of(parts_, sequences_);
    begins_ = {0};
    for (size_t p = 0; p < parts_.size(); ++p) {
      const std::string description = parts_[p].data->description();
      check(counts_[p] > 0, "data", "the weight ", parts_[p].weight, " gives ", description.substr(0, description.find(", ")),
            " none of the ", sequences_, " sequences of an epoch");
      begins_.push_back(begins_.back() + counts_[p]);
    }
    deal_validation();
    check_rows();
  }

  std::string description() const override {
    std::string text = join("a mixture of ", parts_.size(), " parts, ", sequences_, " sequences in an epoch");
    for (size_t p = 0; p < parts_.size(); ++p) {
      const int64_t own = parts_[p].data->sequences_per_epoch();
      text += join("; weight ", parts_[p].weight, ": ", counts_[p], " sequences, ",
                   std::round(100.0 * double(counts_[p]) / double(own)) / 100, " epochs of ", parts_[p].data->description());
    }
    return text;
  }
  std::string identity() const override {
    std::string text = "mixture";
    for (size_t p = 0; p < parts_.size(); ++p) text += join(" ", counts_[p], " of ", parts_[p].data->identity());
    return text;
  }
  const Vocabulary& vocabulary() const override { return parts_[0].data->vocabulary(); }
  int64_t sequences_per_epoch() const override { return sequences_; }

  TokenBatch training_sequence(int64_t position) const override {
    constexpr uint64_t kOwn = 0x6d6978;  // an order that is none of the parts'
    const int64_t epoch = position / sequences_;
    const int64_t i = Permutation(sequences_, seed_ ^ kOwn, uint64_t(epoch))[position % sequences_];
    const size_t part = size_t(std::upper_bound(begins_.begin(), begins_.end(), i) - begins_.begin()) - 1;
    return with_capacity(parts_[part].data->training_sequence(epoch * counts_[part] + i - begins_[part]));
  }
  double counted_share() const override {
    double share = 0;
    for (size_t p = 0; p < parts_.size(); ++p) share += parts_[p].data->counted_share() * double(counts_[p]) / double(sequences_);
    return share;
  }

  PackingFacts packing() const override {
    PackingFacts facts{.name = parts_[0].data->packing().name, .attention = 0};
    for (size_t p = 0; p < parts_.size(); ++p) {
      const PackingFacts part = parts_[p].data->packing();
      facts.padding += part.padding * double(counts_[p]) / double(sequences_);
      facts.attention += part.attention * double(counts_[p]) / double(sequences_);
    }
    return facts;
  }

  int64_t validation_sequences() const override { return int64_t(validation_.size()); }
  TokenBatch validation_sequence(int64_t index) const override {
    const auto& [part, own] = validation_[size_t(index)];
    return with_capacity(parts_[part].data->validation_sequence(own));
  }

 private:
  // Sequences of all parts can share a batch: they have one length, and room for as many documents.
  void check_rows() {
    const int64_t tokens = parts_[0].data->training_sequence(0).tokens;
    for (const MixturePart& part : parts_) {
      const TokenBatch first = part.data->training_sequence(0);
      if (first.tokens != tokens)
        fail(ErrorCode::unsupported, "data", "the parts of the mixture have rows of ", tokens, " and of ", first.tokens,
             " tokens; --packing documents gives them one length");
      capacity_ = std::max(capacity_, first.document_capacity);
    }
  }
  TokenBatch with_capacity(TokenBatch batch) const {
    batch.document_capacity = capacity_;
    return batch;
  }

  // Any number of sequences from the beginning on has about the same share of each part.
  void deal_validation() {
    struct Place {
      double at;
      uint32_t part;
      int64_t index;
    };
    std::vector<Place> places;
    for (size_t p = 0; p < parts_.size(); ++p) {
      const int64_t count = parts_[p].data->validation_sequences();
      for (int64_t i = 0; i < count; ++i) places.push_back({(double(i) + 0.5) / double(count), uint32_t(p), i});
    }
    std::ranges::stable_sort(places, {}, &Place::at);
    for (const Place& place : places) validation_.emplace_back(place.part, place.index);
  }

  std::vector<MixturePart> parts_;
  const uint64_t seed_;
  int64_t sequences_ = 0, capacity_ = 0;
  std::vector<int64_t> counts_, begins_;                  // of the parts in an epoch
  std::vector<std::pair<uint32_t, int64_t>> validation_;  // part and sequence of it
};

class WithValidation : public Dataset {
 public:
  WithValidation(std::unique_ptr<Dataset> training, std::unique_ptr<Dataset> validation)
      : training_(std::move(training)), validation_(std::move(validation)) {}

  std::string description() const override { return join(training_->description(), "; validation: ", validation_->description()); }
  std::string identity() const override { return training_->identity(); }
  std::string validation_identity() const override { return validation_->identity(); }
  const Vocabulary& vocabulary() const override { return training_->vocabulary(); }
  int64_t sequences_per_epoch() const override { return training_->sequences_per_epoch(); }
  TokenBatch training_sequence(int64_t position) const override { return training_->training_sequence(position); }
  double counted_share() const override { return training_->counted_share(); }
  PackingFacts packing() const override { return training_->packing(); }
  int64_t validation_sequences() const override { return validation_->sequences_per_epoch(); }
  TokenBatch validation_sequence(int64_t index) const override { return validation_->training_sequence(index); }

 private:
  std::unique_ptr<Dataset> training_, validation_;
};

}  // namespace

std::unique_ptr<Dataset> mixture(std::vector<MixturePart> parts, uint64_t seed) {
  check(!parts.empty(), "data", "a mixture has no parts");
  for (const MixturePart& part : parts)
    check(std::isfinite(part.weight) && part.weight > 0, "data", "a weight is ", part.weight, ", expected a number above 0");
  return std::make_unique<Mixture>(std::move(parts), seed);
}

std::unique_ptr<Dataset> with_validation(std::unique_ptr<Dataset> training, std::unique_ptr<Dataset> validation) {
  return std::make_unique<WithValidation>(std::move(training), std::move(validation));
}

}  // namespace weft
