#include "weft/data/sums.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "weft/base/check.h"
#include "weft/base/progress.h"

namespace weft {
namespace {

constexpr double kHeldOut = 0.2;

int64_t power_of_ten(int n) {
  int64_t value = 1;
  while (n-- > 0) value *= 10;
  return value;
}

std::string padded(int64_t value, size_t width) {
  const std::string digits = std::to_string(value);
  return std::string(width - digits.size(), '0') + digits;
}

int checked_digits(int digits) {
  check(digits == 2 || digits == 3, "sums", "operands of ", digits, " digits are not offered, expected 2 or 3");
  return digits;
}

}  // namespace

SumsDataset::SumsDataset(const SumsOptions& options)
    : options_(options),
      low_(power_of_ten(checked_digits(options.digits) - 1)),
      numbers_(9 * low_),
      pairs_(numbers_ * (numbers_ + 1) / 2),
      reserved_(int64_t(std::llround(double(pairs_) * kHeldOut))),
      order_(pairs_, options.seed, ~uint64_t(0)),  // an epoch number that training never reaches
      vocabulary_(character_vocabulary({'\n', '+', '=', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9'})) {
  check(options.rows >= 1, "sums", "rows is ", options.rows, ", expected 1 or more");
  for (int64_t i = 0; i < reserved_; ++i) {
    const Pair pair = pair_at(i);
    held_out_.push_back(pair);
    if (pair.a != pair.b) held_out_.push_back({pair.b, pair.a});
  }
}

std::string SumsDataset::description() const {
  return join("sums of two numbers of ", options_.digits, " digits: ", 2 * (pairs_ - reserved_), " training examples, ", held_out_.size(),
              " held out");
}

SumsDataset::Pair SumsDataset::pair_at(int64_t unordered) const {
  const int64_t index = order_[unordered];
  // Row b of a triangle holds b + 1 pairs; b (b + 1) / 2 stand before it.
  int64_t b = int64_t((std::sqrt(8.0 * double(index) + 1) - 1) / 2);
  while (b * (b + 1) / 2 > index) --b;
  while ((b + 1) * (b + 2) / 2 <= index) ++b;
  return {low_ + index - b * (b + 1) / 2, low_ + b};
}

bool SumsDataset::is_held_out(Pair pair) const {
  return std::any_of(held_out_.begin(), held_out_.end(), [&](Pair p) { return p.a == pair.a && p.b == pair.b; });
}

std::string SumsDataset::question(Pair pair) const { return join(pair.a, "+", pair.b, "="); }

std::string SumsDataset::answer(Pair pair) const {
  std::string digits = padded(pair.a + pair.b, size_t(options_.digits) + 1);
  if (options_.reversed) std::reverse(digits.begin(), digits.end());
  return digits + "\n";
}

int32_t SumsDataset::newline() const {
  std::vector<int32_t> ids;
  vocabulary_->encode("\n", ids, "sums");
  return ids.at(0);
}

int64_t SumsDataset::sequences_per_epoch() const { return std::max<int64_t>(1, 2 * (pairs_ - reserved_) / options_.rows); }

TokenBatch SumsDataset::training_sequence(int64_t position) const {
  const int64_t examples = 2 * (pairs_ - reserved_), first = position * options_.rows;
  std::vector<Pair> pairs;
  for (int64_t i = first; i < first + options_.rows; ++i) {
    const int64_t at = Permutation(examples, options_.seed, uint64_t(i / examples))[i % examples];
    const Pair pair = pair_at(reserved_ + at / 2);
    pairs.push_back(at % 2 ? Pair{pair.b, pair.a} : pair);
  }
  return batch_of(pairs);
}

int64_t SumsDataset::validation_sequences() const { return (int64_t(held_out_.size()) + options_.rows - 1) / options_.rows; }

TokenBatch SumsDataset::validation_sequence(int64_t index) const {
  const size_t first = size_t(index * options_.rows), count = std::min(size_t(options_.rows), held_out_.size() - first);
  return batch_of(std::span(held_out_).subspan(first, count));
}

TokenBatch SumsDataset::batch_of(std::span<const Pair> pairs) const {
  TokenBatch batch{int64_t(pairs.size()), 0, {}, {}};
  std::vector<int32_t> ids;
  for (Pair pair : pairs) {
    const std::string question = this->question(pair);
    ids.clear();
    vocabulary_->encode(question + answer(pair), ids, "sums");
    batch.tokens = int64_t(ids.size()) - 1;
    batch.ids.insert(batch.ids.end(), ids.begin(), ids.end() - 1);
    for (size_t i = 1; i < ids.size(); ++i) batch.targets.push_back(i < question.size() ? kIgnored : ids[i]);
  }
  return batch;
}

double exact_match(const SumsDataset& data, const GreedyDecoder& decode, int64_t rows_at_once) {
  return double(right_answers(data, decode, 0, 1, rows_at_once)) / double(data.held_out().size());
}

int64_t right_answers(const SumsDataset& data, const GreedyDecoder& decode, int64_t part, int64_t parts, int64_t rows_at_once) {
  const std::span<const SumsDataset::Pair> all = data.held_out();
  const Vocabulary& vocabulary = data.vocabulary();
  const int64_t length = data.answer_length();
  int64_t right = 0;
  for (size_t first = size_t(part * rows_at_once); first < all.size(); first += size_t(parts * rows_at_once)) {
    report_progress({.what = "scoring sum", .done = int64_t(first), .total = int64_t(all.size())});
    const auto pairs = all.subspan(first, std::min(size_t(rows_at_once), all.size() - first));
    std::vector<int32_t> prompts;
    for (SumsDataset::Pair pair : pairs) vocabulary.encode(data.question(pair), prompts, "sums");
    const int64_t rows = int64_t(pairs.size());
    const std::vector<int32_t> answers = decode(prompts, rows, int64_t(prompts.size()) / rows, length);
    check(int64_t(answers.size()) == rows * length, "sums", answers.size(), " ids were decoded, expected ", rows * length);
    for (size_t i = 0; i < pairs.size(); ++i)
      right += vocabulary.decode(std::span(answers).subspan(i * size_t(length), size_t(length))) == data.answer(pairs[i]);
  }
  report_progress({.what = "scoring sum", .done = int64_t(all.size()), .total = int64_t(all.size())});
  return right;
}

}  // namespace weft
