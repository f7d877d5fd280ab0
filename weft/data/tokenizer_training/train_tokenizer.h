// Trains a byte-level BPE tokenizer on documents: counts the words that a pattern splits them into, then learns the merges.
//
//   const Documents documents("corpus/");
//   write_tokenizer_folder(train_tokenizer(documents, {.vocabulary = 32000}), "tokenizer");
//
// Vocabulary and merges are those of `tokenizers`' BpeTrainer on the same documents (merge_learner.h has the rules, ties included), as long
// as the corpus has at most `most_words` distinct words; they never depend on the number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/data/documents.h"

namespace weft {

enum class WordPattern { gpt2, llama3 };
WordPattern word_pattern(std::string_view name);  // throws for an unknown one

struct TokenizerTraining {
  int64_t vocabulary = 32000;  // tokens: the special ones, the 256 bytes, the merged ones
  WordPattern pattern = WordPattern::gpt2;
  std::string end_token = "<|endoftext|>";  // ends a document, the first of the special tokens; empty: none
  std::vector<std::string> special = {};    // further ones
  int64_t min_frequency = 1;                // pairs that occur less often are not merged
  // Distinct words in memory, some 200 bytes each. Beyond it the rarest are dropped (word_counts.h), and merges may differ from
  // those of all words.
  int64_t most_words = 8'000'000;
  int threads = 0;  // 0: all that the process may use
};

struct TrainedTokenizer {
  std::string tokenizer_json = {}, tokenizer_config_json = {};
  int64_t vocabulary = 0, merges = 0;
  bool exhausted = false;                              // no frequent enough pair was left before the vocabulary was full
  int64_t documents = 0, bytes = 0;                    // of text
  int64_t words = 0, distinct_words = 0;               // that the text has, and that were kept
  int64_t dropped_words = 0, dropped_occurrences = 0;  // at most_words
  int64_t dropped_count = 0;                           // words that had occurred at most this often were dropped
};

// Throws invalid_argument for options that contradict each other, bad_file for data that cannot be read or has no text.
TrainedTokenizer train_tokenizer(const Documents& documents, const TokenizerTraining& options);
// The checks of train_tokenizer() before it reads any data.
void check_options(const TokenizerTraining& options);

// Throws bad_file if the folder exists, or cannot be made.
void check_new_folder(const std::string& folder);
// Writes tokenizer.json and tokenizer_config.json into a new folder, which appears with both files or not at all.
void write_tokenizer_folder(const TrainedTokenizer& tokenizer, const std::string& folder);

}  // namespace weft
