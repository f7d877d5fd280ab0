// The words of a corpus and how often they occur, counted on several threads. Not installed.
//
// Text is read in batches whose boundaries depend on the documents alone. The words of a batch are counted in tasks of about 128 KiB, each
// with a table of its own; then each of the corpus's tables (kWordShards) takes its words from all tasks. Counts are sums of integers, so
// they do not depend on the number of threads.
//
// Memory is bounded by the limit on distinct words. When a batch ends with more words than that, or with more than 32 bytes of text for
// each word of the limit, the words that occur least often so far are dropped: all that occur at most k times, for the smallest k that
// leaves at most half of the limit. A dropped word that comes again is counted from zero (lossy counting: Manku, Motwani 2002).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "weft/data/documents.h"
#include "weft/data/tokenizer_training/word_table.h"
#include "weft/io/tokenizer/regex.h"

namespace weft {

// Bytes of the longest word. A longer run without a place to split at is no word of a language; it is split at a character, so that no
// input makes tokens of any length.
inline constexpr size_t kLongestWord = size_t(64) << 10;
inline constexpr int64_t kBytesPerWord = 32;  // of text, on average, at the limit; words of natural text have about 10

struct WordCounts {
  std::array<WordTable, kWordShards> shards;
  int64_t documents = 0, bytes = 0, occurrences = 0;   // of text
  int64_t dropped_words = 0, dropped_occurrences = 0;  // at the limit
  int64_t dropped_count = 0;                           // the largest k: words that occurred this often were dropped

  int64_t words() const;
  int64_t word_bytes() const;
};

struct CountingOptions {
  int threads = 1;
  int64_t most_words = 0;  // distinct ones
};

// Counts the matches of `pattern`, and the texts between them, in each document. Throws bad_file naming the document and the byte that is
// not UTF-8.
WordCounts count_words(const Documents& documents, const Regex& pattern, const CountingOptions& options);

}  // namespace weft
