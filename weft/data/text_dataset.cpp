#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/data/dataset.h"
#include "weft/data/packing.h"
#include "weft/data/permutation.h"
#include "weft/data/token_cache.h"

namespace weft {
namespace {

class TextDataset : public Dataset {
 public:
  TextDataset(const TextOptions& options, TokenCache tokens, std::shared_ptr<const Vocabulary> vocabulary)
      : options_(options), vocabulary_(std::move(vocabulary)), tokens_(std::move(tokens)) {
    if (options.vocabulary_limit > 0 && vocabulary_->size() > options.vocabulary_limit) check_ids();
  }

  std::string description() const override {
    return join(options_.path, ", ", tokens_.size(), " tokens (", vocabulary_->kind(), ", ", vocabulary_->size(), " ids), ",
                sequences_per_epoch(), " training and ", validation_sequences(), " validation sequences of ", options_.tokens);
  }
  std::string identity() const override { return tokens_.identity(); }
  const Vocabulary& vocabulary() const override { return *vocabulary_; }
  TokenBatch training_sequence(int64_t position) const override {
    const int64_t epoch = sequences_per_epoch();
    return sequence(Permutation(epoch, options_.seed, uint64_t(position / epoch))[position % epoch]);
  }

 protected:
  virtual TokenBatch sequence(int64_t index) const = 0;  // of the training sequences
  const TextOptions& options() const { return options_; }
  const TokenCache& tokens() const { return tokens_; }

 private:
  // A tokenizer may have more ids than the model has embeddings; an error only if the text contains one of them.
  void check_ids() const {
    if (const int32_t id = tokens_.largest_id(); id >= options_.vocabulary_limit)
      fail(ErrorCode::invalid_argument, options_.path, "has the token '", vocabulary_->decode(std::span(&id, 1)), "' of id ", id,
           ", the model takes ids below ", options_.vocabulary_limit);
  }

  TextOptions options_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  TokenCache tokens_;
};

class ConcatenatedText : public TextDataset {
 public:
  ConcatenatedText(const TextOptions& options, TokenCache cache, std::shared_ptr<const Vocabulary> vocabulary)
      : TextDataset(options, std::move(cache), std::move(vocabulary)) {
    const int64_t sequences = (tokens().size() - 1) / options.tokens;
    if (sequences < 1)
      fail(ErrorCode::bad_file, options.path, "has ", tokens().size(), " tokens, less than one sequence of ", options.tokens,
           " and the token after it");
    const auto wanted = int64_t(std::ceil(double(sequences) * options.validation_fraction));
    held_out_ = std::min(wanted, sequences - 1);
    training_ = sequences - held_out_;
  }

  int64_t sequences_per_epoch() const override { return training_; }
  int64_t validation_sequences() const override { return held_out_; }
  TokenBatch validation_sequence(int64_t index) const override { return sequence(training_ + index); }
  PackingFacts packing() const override { return {.name = "concatenate"}; }

 private:
  TokenBatch sequence(int64_t index) const override {
    const int64_t T = options().tokens, first = index * T;
    TokenBatch batch{1, T, std::vector<int32_t>(size_t(T)), std::vector<int32_t>(size_t(T))};
    tokens().read(first, batch.ids);
    std::copy(batch.ids.begin() + 1, batch.ids.end(), batch.targets.begin());
    tokens().read(first + T, std::span(batch.targets).last(1));
    return batch;
  }

  int64_t training_ = 0, held_out_ = 0;  // sequences
};

// The last id of a document is a target alone.
class TextDocuments : public TokenDocuments {
 public:
  explicit TextDocuments(const TokenCache& tokens) : tokens_(tokens) {}
  int64_t size() const override { return tokens_.documents(); }
  int64_t length(int64_t d) const override { return std::max<int64_t>(0, tokens_.document_begin(d + 1) - tokens_.document_begin(d) - 1); }
  void read(int64_t document, int64_t begin, std::span<int32_t> ids, std::span<int32_t> targets) const override {
    const int64_t first = tokens_.document_begin(document) + begin;
    tokens_.read(first, ids);
    std::copy(ids.begin() + 1, ids.end(), targets.begin());
    tokens_.read(first + int64_t(ids.size()), targets.last(1));
  }

 private:
  const TokenCache& tokens_;
};

class PackedText : public TextDataset {
 public:
  PackedText(const TextOptions& options, TokenCache cache, std::shared_ptr<const Vocabulary> vocabulary)
      : TextDataset(options, std::move(cache), std::move(vocabulary)),
        documents_(tokens()),
        parts_(hold_out(documents_, options.tokens, options.validation_fraction)),
        training_(documents_, parts_.training, options.tokens, options.packing),
        validation_(documents_, parts_.validation, options.tokens, options.packing) {
    if (training_.size() < 1)
      fail(ErrorCode::bad_file, options.path, "has ", tokens().size(), " tokens in ", documents_.size(),
           " documents, and no document of two tokens or more");
  }

  std::string description() const override {
    char padding[32];
    std::snprintf(padding, sizeof padding, "%.2f %% padding", 100 * packing().padding);
    return join(TextDataset::description(), ", ", documents_.size(), documents_.size() == 1 ? " document" : " documents", ", packing ",
                name(options().packing), ", ", padding);
  }
  int64_t sequences_per_epoch() const override { return training_.size(); }
  int64_t validation_sequences() const override { return validation_.size(); }
  // Shuffled: an evaluation of the first ones sees documents of all lengths.
  TokenBatch validation_sequence(int64_t index) const override {
    return validation_.sequence(Permutation(validation_.size(), options().seed, UINT64_MAX)[index]);
  }
  PackingFacts packing() const override {
    const double tokens = double(training_.size()) * double(options().tokens);
    return {.name = std::string(name(options().packing)),
            .padding = 1 - double(training_.rows().tokens()) / tokens,
            .attention = training_.rows().attention()};
  }

 private:
  TokenBatch sequence(int64_t index) const override { return training_.sequence(index); }

  TextDocuments documents_;
  HeldOut parts_;
  PackedSequences training_, validation_;
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
  if (options.packing == Packing::concatenate) return std::make_unique<ConcatenatedText>(options, std::move(tokens), std::move(vocabulary));
  return std::make_unique<PackedText>(options, std::move(tokens), std::move(vocabulary));
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
