// A dataset that needs no file: sums of two numbers of two or three digits, written as "47+85=132\n".
//
// A fifth of all unordered pairs is held out in both orders: a scored sum was never seen in training, nor was the sum with its
// operands swapped. One sequence is a block of `rows` examples of one length; only targets after "=" count in the loss. The
// answer has a fixed width with leading zeros; `reversed` writes its last digit first, the order in which carries are known.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/data/dataset.h"
#include "weft/data/permutation.h"

namespace weft {

struct SumsOptions {
  int digits = 2;  // of the operands: 2 or 3
  bool reversed = false;
  int64_t rows = 64;  // examples in one sequence
  uint64_t seed = 0;  // of the order and of the held-out pairs
};

class SumsDataset : public Dataset {
 public:
  explicit SumsDataset(const SumsOptions& options);

  std::string description() const override;
  std::string identity() const override { return "sums"; }
  const Vocabulary& vocabulary() const override { return *vocabulary_; }
  int64_t sequences_per_epoch() const override;
  TokenBatch training_sequence(int64_t position) const override;
  int64_t validation_sequences() const override;
  TokenBatch validation_sequence(int64_t index) const override;

  struct Pair {
    int64_t a, b;
  };
  const std::vector<Pair>& held_out() const { return held_out_; }  // both orders
  bool is_held_out(Pair pair) const;

  std::string question(Pair pair) const;  // "47+85="
  std::string answer(Pair pair) const;    // "132\n", or "231\n"
  int64_t answer_length() const { return options_.digits + 2; }
  int64_t example_length() const { return int64_t(question({low_, low_}).size()) + answer_length(); }
  int32_t newline() const;  // the id that ends an answer

 private:
  Pair pair_at(int64_t unordered) const;  // the i-th of the shuffled pairs a <= b
  TokenBatch batch_of(std::span<const Pair> pairs) const;

  SumsOptions options_;
  int64_t low_, numbers_;     // operands are low_ .. low_ + numbers_ - 1
  int64_t pairs_, reserved_;  // unordered; the first `reserved_` of the shuffled order are held out
  Permutation order_;
  std::unique_ptr<Vocabulary> vocabulary_;
  std::vector<Pair> held_out_;
};

// Continues each prompt (ids [rows, tokens]) by `count` ids, each the most likely one.
using GreedyDecoder = std::function<std::vector<int32_t>(std::span<const int32_t> prompts, int64_t rows, int64_t tokens, int64_t count)>;

// The share of all held-out sums that are answered exactly.
double exact_match(const SumsDataset& data, const GreedyDecoder& decode, int64_t rows_at_once = 512);
// The number of right answers in batches part, part + parts, ... of `rows_at_once` held-out sums.
int64_t right_answers(const SumsDataset& data, const GreedyDecoder& decode, int64_t part, int64_t parts, int64_t rows_at_once = 512);

}  // namespace weft
