#include "weft/data/chat_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "weft/base/check.h"
#include "weft/data/permutation.h"

namespace weft {

ChatDocuments::ChatDocuments(std::shared_ptr<const ChatCache> cache, int64_t first, int64_t last, int64_t most) : cache_(std::move(cache)) {
  for (int64_t c = first; c < last; ++c) {
    int64_t length = cache_->length(c) - 1;  // the last id is a target alone
    const bool long_one = length > most;
    if (long_one)
      for (length = most; length > 0 && !cache_->counts(c, length);) --length;
    if (length == 0) {
      ++left_out_;
      continue;
    }
    shortened_ += long_one;
    kept_.push_back({c, length});
    tokens_ += length;
    longest_ = std::max(longest_, length);
    if (!long_one) counted_ += cache_->counted(c);
    for (int64_t i = 1; long_one && i <= length; ++i) counted_ += cache_->counts(c, i);
  }
}

void ChatDocuments::read(int64_t document, int64_t begin, std::span<int32_t> ids, std::span<int32_t> targets) const {
  const int64_t c = kept_[size_t(document)].conversation;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t at = begin + int64_t(i);
    ids[i] = cache_->id(c, at);
    targets[i] = cache_->counts(c, at + 1) ? cache_->id(c, at + 1) : kIgnored;
  }
}

std::vector<int32_t> ChatDocuments::prompt(int64_t document) const {
  const int64_t c = kept_[size_t(document)].conversation;
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < cache_->length(c) && !cache_->counts(c, i); ++i) ids.push_back(cache_->id(c, i));
  return ids;
}

namespace {

int64_t held_out(const ChatCache& cache, double fraction) {
  return std::min(int64_t(std::ceil(double(cache.size()) * fraction)), cache.size() - 1);
}

int64_t row_tokens(const ChatDataOptions& options, const ChatDocuments& training, const ChatDocuments& validation) {
  if (options.full_rows) return options.tokens;
  const int64_t longest = std::max(training.longest(), validation.longest());
  return options.packing == Packing::none ? longest : std::min(options.tokens, std::max(longest, training.tokens()));
}

class Conversations : public ChatDataset {
 public:
  Conversations(const ChatDataOptions& options, std::shared_ptr<const ChatEncoder> encoder, std::shared_ptr<const ChatCache> cache)
      : options_(options),
        encoder_(std::move(encoder)),
        cache_(std::move(cache)),
        training_(cache_, 0, cache_->size() - held_out(*cache_, options.validation_fraction), options.tokens),
        validation_(cache_, cache_->size() - held_out(*cache_, options.validation_fraction), cache_->size(), options.tokens),
        row_(checked_row()),
        training_rows_(training_, all_pieces(training_), row_, options.packing),
        validation_rows_(validation_, all_pieces(validation_), row_, options.packing) {}

  std::string description() const override {
    return join(options_.path, ", ", training_.size() + validation_.size(), " conversations of ", tokens(), " tokens (",
                vocabulary().kind(), ", ", vocabulary().size(), " ids), of which ", percent(counted_share()), " % count; ",
                training_.size(), " for training and ", validation_.size(), " for validation, ",
                options_.packing == Packing::none ? "one a row" : "packed into rows", " of ", row_, " tokens, ", percent(padding()),
                " % of them padding");
  }
  double counted_share() const override { return double(training_.counted() + validation_.counted()) / double(tokens()); }
  std::string identity() const override { return cache_->identity(); }
  const Vocabulary& vocabulary() const override { return encoder_->vocabulary(); }

  int64_t sequences_per_epoch() const override { return training_rows_.size(); }
  TokenBatch training_sequence(int64_t position) const override {
    const int64_t size = training_rows_.size();
    return training_rows_.sequence(Permutation(size, options_.seed, uint64_t(position / size))[position % size]);
  }
  int64_t validation_sequences() const override { return validation_rows_.size(); }
  // Packed rows are shuffled, as the first ones have the longest conversations.
  TokenBatch validation_sequence(int64_t index) const override {
    const bool packed = options_.packing == Packing::documents;
    return validation_rows_.sequence(packed ? Permutation(validation_rows_.size(), options_.seed, UINT64_MAX)[index] : index);
  }
  PackingFacts packing() const override {
    return {.name = std::string(name(options_.packing)), .padding = padding(), .attention = training_rows_.rows().attention()};
  }

  std::vector<int32_t> sample_prompt() const override { return validation_.size() > 0 ? validation_.prompt(0) : training_.prompt(0); }

  // Conversations that are cut or left out; "" if there are none.
  std::string shortened_text() const {
    const int64_t left_out = training_.left_out() + validation_.left_out(), shortened = training_.shortened() + validation_.shortened();
    if (shortened + left_out == 0) return "";
    const auto are = [](int64_t count) { return join(count, count == 1 ? " is" : " are"); };
    return join(options_.path, ": of ", cache_->size(), " conversations ", are(shortened), " cut to the first ", options_.tokens,
                " tokens, and ", are(left_out), " left out for want of an answer in these; a longer --sequence reads more");
  }

 private:
  static std::string percent(double share) {
    char text[16];
    std::snprintf(text, sizeof text, "%.1f", 100 * share);
    return text;
  }
  int64_t tokens() const { return training_.tokens() + validation_.tokens(); }
  double padding() const { return 1 - double(training_.tokens()) / double(training_rows_.size() * row_); }

  int64_t checked_row() const {
    // A tokenizer may have more ids than the model has embeddings; an error only if a conversation contains one of them.
    if (const int32_t id = cache_->largest_id(); options_.vocabulary_limit > 0 && id >= options_.vocabulary_limit)
      fail(ErrorCode::invalid_argument, options_.path, "has the token '", vocabulary().decode(std::span(&id, 1)), "' of id ", id,
           ", the model takes ids below ", options_.vocabulary_limit);
    if (training_.size() == 0)
      fail(ErrorCode::bad_file, options_.path, "has no conversation to train on: none of ", training_.left_out(),
           " has an answer in its first ", options_.tokens, " tokens; a longer --sequence reads more");
    return row_tokens(options_, training_, validation_);
  }

  ChatDataOptions options_;
  std::shared_ptr<const ChatEncoder> encoder_;
  std::shared_ptr<const ChatCache> cache_;
  ChatDocuments training_, validation_;
  int64_t row_;
  PackedSequences training_rows_, validation_rows_;
};

}  // namespace

std::unique_ptr<ChatDataset> chat_dataset(const ChatDataOptions& options, std::shared_ptr<const ChatEncoder> encoder,
                                          const std::function<void(const std::string&)>& notice) {
  check(options.tokens >= 1, "data", "tokens is ", options.tokens, ", expected a sequence of 1 or more");
  check(options.validation_fraction >= 0 && options.validation_fraction < 1, "data", "the validation fraction is ",
        options.validation_fraction, ", expected zero or more and below 1");
  auto cache = std::make_shared<const ChatCache>(Documents(options.path, notice), *encoder, options.cache_folder, notice, options.threads);
  auto data = std::make_unique<Conversations>(options, std::move(encoder), std::move(cache));
  if (const std::string text = data->shortened_text(); notice && !text.empty()) notice(text);
  return data;
}

}  // namespace weft
