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
  TextDataset(const TextOptions& options, const Documents& documents, std::shared_ptr<const Vocabulary> vocabulary,
              const std::function<void(const std::string&)>& notice)
      : options_(options),
        vocabulary_(std::move(vocabulary)),
        tokens_(documents, *vocabulary_, options.cache_folder, notice, options.threads) {
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
    for (int64_t i = 0; i < tokens_.size(); ++i)
      if (const int32_t id = tokens_[i]; id >= options_.vocabulary_limit)
        fail(ErrorCode::invalid_argument, options_.path, "has the token '", vocabulary_->decode(std::span(&id, 1)), "' of id ", id,
             ", the model takes ids below ", options_.vocabulary_limit);
  }

  TokenBatch sequence(int64_t index) const {
    const int64_t T = options_.tokens, first = index * T;
    TokenBatch batch{1, T, std::vector<int32_t>(size_t(T)), std::vector<int32_t>(size_t(T))};
    for (int64_t i = 0; i < T; ++i) {
      batch.ids[size_t(i)] = tokens_[first + i];
      batch.targets[size_t(i)] = tokens_[first + i + 1];
    }
    return batch;
  }

  TextOptions options_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  TokenCache tokens_;
  int64_t training_ = 0, held_out_ = 0;  // sequences
};

}  // namespace

std::unique_ptr<Dataset> text_dataset(const TextOptions& options, std::shared_ptr<const Vocabulary> vocabulary,
                                      const std::function<void(const std::string&)>& notice) {
  check(options.tokens >= 1, "data", "tokens is ", options.tokens, ", expected a sequence of 1 or more");
  check(options.validation_fraction >= 0 && options.validation_fraction < 1, "data", "the validation fraction is ",
        options.validation_fraction, ", expected zero or more and below 1");
  return std::make_unique<TextDataset>(options, Documents(options.path, notice, options.conversations), std::move(vocabulary), notice);
}

CharactersFound characters_of(const Documents& documents) {
  constexpr size_t kPiece = 1 << 20;  // bytes between two progress reports
  std::set<char32_t> found = {U'\n'};
  int64_t done = 0, count = 0;
  const auto tell = report_bytes("collecting characters", size_t(documents.bytes()));
  documents.visit([&](std::string_view text, const std::string& where) {
    for (size_t at = 0; at < text.size();) {
      tell(done + int64_t(at));
      for (const size_t end = std::min(at + kPiece, text.size()); at < end;) found.insert(next_character(text, at, where));
    }
    done += int64_t(text.size());
    ++count;
  });
  tell(documents.bytes());
  return {{found.begin(), found.end()}, count};
}

}  // namespace weft
