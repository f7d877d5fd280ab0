#include <algorithm>
#include <cmath>
#include <set>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/data/dataset.h"
#include "weft/data/permutation.h"
#include "weft/data/token_cache.h"

namespace weft {
namespace {

class TextDataset : public Dataset {
 public:
  TextDataset(const TextOptions& options, TokenCache tokens, std::shared_ptr<const Vocabulary> vocabulary)
      : options_(options), vocabulary_(std::move(vocabulary)), tokens_(std::move(tokens)) {
    if (options.vocabulary_limit > 0 && vocabulary_->size() > options.vocabulary_limit) check_ids();
    const int64_t sequences = (tokens_.size() - 1) / options.tokens;
    if (sequences < 1)
      fail(ErrorCode::bad_file, options.path, "has ", tokens_.size(), " tokens, less than one sequence of ", options.tokens,
           " and the token after it");
    const auto wanted = int64_t(std::ceil(double(sequences) * options.validation_fraction));
    held_out_ = std::min(wanted, sequences - 1);
    training_ = sequences - held_out_;
  }

  std::string description() const override {
    return join(options_.path, ", ", tokens_.size(), " tokens (", vocabulary_->kind(), ", ", vocabulary_->size(), " ids), ", training_,
                " training and ", held_out_, " validation sequences of ", options_.tokens);
  }
  std::string identity() const override { return tokens_.identity(); }
  const Vocabulary& vocabulary() const override { return *vocabulary_; }
  int64_t sequences_per_epoch() const override { return training_; }
  TokenBatch training_sequence(int64_t position) const override {
    return sequence(Permutation(training_, options_.seed, uint64_t(position / training_))[position % training_]);
  }
  int64_t validation_sequences() const override { return held_out_; }
  TokenBatch validation_sequence(int64_t index) const override { return sequence(training_ + index); }

 private:
  // A tokenizer may have more ids than the model has embeddings; an error only if the text contains one of them.
  void check_ids() const {
    if (const int32_t id = tokens_.largest_id(); id >= options_.vocabulary_limit)
      fail(ErrorCode::invalid_argument, options_.path, "has the token '", vocabulary_->decode(std::span(&id, 1)), "' of id ", id,
           ", the model takes ids below ", options_.vocabulary_limit);
  }

  TokenBatch sequence(int64_t index) const {
    const int64_t T = options_.tokens, first = index * T;
    TokenBatch batch{1, T, std::vector<int32_t>(size_t(T)), std::vector<int32_t>(size_t(T))};
    tokens_.read(first, batch.ids);
    std::copy(batch.ids.begin() + 1, batch.ids.end(), batch.targets.begin());
    tokens_.read(first + T, std::span(batch.targets).last(1));
    return batch;
  }

  TextOptions options_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  TokenCache tokens_;
  int64_t training_ = 0, held_out_ = 0;  // sequences
};

TokenCache open_tokens(const TextOptions& options, const Vocabulary& vocabulary, const std::function<void(const std::string&)>& notice) {
  if (is_prepared_data(options.path)) return TokenCache::prepared(options.path, vocabulary, notice);
  const Documents documents(options.path, notice, options.conversations, options.field);
  return TokenCache(documents, vocabulary, options.cache_folder, notice, options.threads);
}

}  // namespace

std::unique_ptr<Dataset> text_dataset(const TextOptions& options, std::shared_ptr<const Vocabulary> vocabulary,
                                      const std::function<void(const std::string&)>& notice) {
  check(options.tokens >= 1, "data", "tokens is ", options.tokens, ", expected a sequence of 1 or more");
  check(options.validation_fraction >= 0 && options.validation_fraction < 1, "data", "the validation fraction is ",
        options.validation_fraction, ", expected zero or more and below 1");
  TokenCache tokens = open_tokens(options, *vocabulary, notice);
  return std::make_unique<TextDataset>(options, std::move(tokens), std::move(vocabulary));
}

CharactersFound characters_of(const Documents& documents) {
  std::set<char32_t> found = {U'\n'};
  std::vector<bool> seen(0x110000);
  int64_t count = 0;
  const auto tell = report_bytes("collecting characters", size_t(documents.bytes()));
  const auto at_character = [](std::string_view text, size_t most) {
    while (most > 1 && (text[most] & 0xc0) == 0x80) --most;
    return most;
  };
  documents.visit_parts(at_character, [&](const Documents::Part& part) {
    for (size_t at = 0; at < part.text.size();) {
      const char32_t character = next_character(part.text, at, part.where);
      if (!seen[character]) found.insert(character);
      seen[character] = true;
    }
    count += part.begins;
    tell(part.bytes);
  });
  return {{found.begin(), found.end()}, count};
}

}  // namespace weft
