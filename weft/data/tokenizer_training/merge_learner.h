// Learns the merges of a byte-level BPE from words and their counts. Not installed.
//
// Each step merges the pair of neighbouring tokens that occurs most often in all words. Of pairs that occur equally often, the one with the
// smaller left id comes first; with the same left token, the one with the smaller right id. Ids: the special tokens, the 256 bytes in the
// order of their letters' code points (weft/io/tokenizer/byte_alphabet.h), then the merged tokens in the order they were learned.
//
// Merges, ids and their order are those of `tokenizers`' BpeTrainer (initial_alphabet: all bytes). It counts occurrences that overlap
// ("aaa" has two of (a, a)), and a merge whose text is that of a special token becomes that token: the vocabulary does not grow. Its counts
// have 32 bits and wrap in corpora where a pair occurs 2^31 times; these have 64.
//
// A text becomes a token by one pair only, so each pair is created by one merge, all its words are known then, and it is a candidate once.
// For if no merge crosses the ends of a text S, what happens inside S does not depend on what is around it: every merge goes through all
// words, from left to right, and a run such as x x x that starts before S is either divided at its beginning or crosses it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weft/data/tokenizer_training/pair_counts.h"
#include "weft/data/tokenizer_training/word_counts.h"

namespace weft {

struct MergeOptions {
  int64_t vocabulary = 0;  // tokens at most
  int64_t min_frequency = 1;
  std::vector<std::string> special = {};
  int threads = 1;
};

struct LearnedMerges {
  std::vector<std::string> tokens;  // by id, as spelled in the vocabulary
  std::vector<TokenPair> merges;    // in the order of their ranks
  bool exhausted = false;           // no pair was left that occurs often enough
};

// Takes the words out of `counts`, to free their memory early.
LearnedMerges learn_merges(WordCounts& counts, const MergeOptions& options);

}  // namespace weft
