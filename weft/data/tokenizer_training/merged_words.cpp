#include "weft/data/tokenizer_training/merged_words.h"

#include "weft/base/check.h"

namespace weft {

void MergedWords::take(WordCounts& counts, const std::array<uint32_t, 256>& id_of_byte) {
  check(counts.words() < int64_t(UINT32_MAX), "tokenizer", "the corpus has ", counts.words(),
        " distinct words, at most 2^32 - 2 are supported");
  words_.reserve(size_t(counts.words()));
  tokens_.reserve(size_t(counts.word_bytes()));
  for (WordTable& table : counts.shards) {
    table.visit([&](std::string_view word, int64_t count) {
      if (word.size() < 2) return;
      words_.push_back({count, tokens_.size(), uint32_t(word.size())});
      for (const char byte : word) tokens_.push_back(id_of_byte[uint8_t(byte)]);
    });
    table = WordTable();
  }
}

}  // namespace weft
