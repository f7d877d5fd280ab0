// The words of a corpus as sequences of tokens, in which pairs are merged. Not installed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/data/tokenizer_training/word_counts.h"

namespace weft {

class MergedWords {
 public:
  // Takes the words of at least two bytes out of `counts`; others have no pairs.
  void take(WordCounts& counts, const std::array<uint32_t, 256>& id_of_byte);

  uint32_t size() const { return uint32_t(words_.size()); }
  int64_t count(uint32_t word) const { return words_[word].count; }
  std::span<const uint32_t> operator[](uint32_t word) const { return {tokens_.data() + words_[word].begin, words_[word].length}; }

  // Replaces `left`, `right` by `joined` from left to right. Calls before(token) and after(token) with the neighbours of each occurrence,
  // if it has them: the one before it as it is then, possibly `joined`; the one after it as it was.
  template <class Before, class After>
  void merge(uint32_t word, uint32_t left, uint32_t right, uint32_t joined, const Before& before, const After& after) {
    uint32_t* const tokens = tokens_.data() + words_[word].begin;
    const uint32_t length = words_[word].length;
    uint32_t to = 0;
    for (uint32_t i = 0; i < length; ++to) {
      if (tokens[i] != left || i + 1 == length || tokens[i + 1] != right) {
        tokens[to] = tokens[i++];
        continue;
      }
      if (to > 0) before(tokens[to - 1]);
      if (i + 2 < length) after(tokens[i + 2]);
      tokens[to] = joined;
      i += 2;
    }
    words_[word].length = to;
  }

 private:
  struct Word {
    int64_t count;
    uint64_t begin;  // in tokens_
    uint32_t length;
  };
  std::vector<Word> words_;
  std::vector<uint32_t> tokens_;
};

// The tokens on one side of the merged pairs of several words: how often each stands there, and in which words.
class Neighbours {
 public:
  struct Place {
    uint32_t token, word;
  };
  struct Sum {
    int64_t count = 0;
    uint32_t words = 0, last_word = 0;
  };

  // Words come in ascending order.
  void add(uint32_t token, uint32_t word, int64_t count) {
    if (token >= sums_.size()) sums_.resize(size_t(token) + 1024);  // new tokens come one by one
    Sum& sum = sums_[token];
    if (sum.words == 0) tokens_.push_back(token);
    sum.count += count;
    if (sum.words > 0 && sum.last_word == word) return;
    ++sum.words;
    sum.last_word = word;
    places_.push_back({token, word});
  }
  const std::vector<uint32_t>& tokens() const { return tokens_; }  // each once
  const std::vector<Place>& places() const { return places_; }     // each pair of token and word once
  const Sum& operator[](uint32_t token) const { return sums_[token]; }
  void clear() {
    for (const uint32_t token : tokens_) sums_[token] = {};
    tokens_.clear();
    places_.clear();
  }

 private:
  std::vector<Sum> sums_;  // by token
  std::vector<uint32_t> tokens_;
  std::vector<Place> places_;
};

}  // namespace weft
