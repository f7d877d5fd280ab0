#include "weft/generate/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <numeric>

#include "weft/base/check.h"
#include "weft/base/philox.h"
#include "weft/io/checksum.h"
#include "weft/tile/cpu/token_weights.h"

namespace weft {
namespace {

// Logits weighed at once: the weights of a chunk, with their ids, stay in L1.
constexpr size_t kChunk = 1024;

// Fraction bits of a weight, chosen so that the sum of `count` weights of at most 1 stays below 2^63.
int shift_of(size_t count) { return 62 - int(std::bit_width(count)); }

// [0, 1) in steps of 2^-53.
double unit_double(uint64_t seed, DrawPoint point) {
  const PhiloxBlock bits = philox({point.position, point.occurrence, uint32_t(point.prompt), uint32_t(point.prompt >> 32)},
                                  {uint32_t(seed), uint32_t(seed >> 32)});
  return double((uint64_t(bits[0]) << 32 | bits[1]) >> 11) * 0x1p-53;
}

// The number below `all` at which a token is drawn.
uint64_t target_of(uint64_t all, uint64_t seed, DrawPoint point) {
  return std::min(all - 1, uint64_t(unit_double(seed, point) * double(all)));
}

int32_t largest_of(std::span<const float> logits, DrawPoint point) {
  check(!logits.empty(), "sampler", "there are no logits for position ", point.position);
  const int64_t best = cpu::largest_logit(logits.data(), int64_t(logits.size()));
  if (best < 0) {
    const auto bad = std::ranges::find_if(logits, [](float l) { return !(l < std::numeric_limits<float>::infinity()); });
    fail(ErrorCode::device_fault, "sampler", "the logit of token ", bad - logits.begin(), " at position ", point.position, " is ", *bad);
  }
  if (std::isinf(logits[size_t(best)])) fail(ErrorCode::device_fault, "sampler", "every logit at position ", point.position, " is -inf");
  return int32_t(best);
}

// A logit below which every weight is surely below `from`: 0.001 in the exponent is far more than the exponential's error, and a float less
// far more than that of these operations.
float logit_of_weight(uint64_t from, const cpu::TokenWeights& of) {
  const double exponent = std::log2(double(from)) - of.bits - 0.001;
  const float logit =
      float(std::max(of.largest + of.temperature * exponent * std::numbers::ln2, -double(std::numeric_limits<float>::max())));
  return std::max(std::nextafter(logit, -std::numeric_limits<float>::infinity()), std::numeric_limits<float>::lowest());
}

// A weight such that those of at least this much reach p of the sum, whatever they are: each of the others is so small that all of them
// are less than 1 - p of the largest. 2048 is more than the roundings of the sum and of its share (top_p_of) take.
uint64_t surely_enough(double p, int bits, size_t count) {
  const double most = (1 - p) * std::exp2(bits) / double(count) - 2048;
  return most > 1 ? uint64_t(most) : 1;
}

}  // namespace

uint64_t prompt_key(std::span<const int32_t> ids) { return xxh64(std::as_bytes(ids)); }

void validate(const SamplingOptions& o) {
  check(o.temperature >= 0 && std::isfinite(o.temperature), "sampler", "temperature is ", o.temperature, ", expected 0 (greedy) or more");
  check(o.top_k >= 0, "sampler", "top_k is ", o.top_k, ", expected 0 (all) or more");
  check(o.top_p >= 0 && o.top_p <= 1, "sampler", "top_p is ", o.top_p, ", expected 0 to 1");
  check(o.min_p >= 0 && o.min_p <= 1, "sampler", "min_p is ", o.min_p, ", expected 0 to 1");
  check(o.repetition_penalty > 0 && std::isfinite(o.repetition_penalty), "sampler", "repetition_penalty is ", o.repetition_penalty,
        ", expected more than 0 (1: none)");
}

Sampler::Sampler(const SamplingOptions& options) : options_(options) { validate(options_); }

int32_t Sampler::next(std::span<const float> logits, std::span<const int32_t> history, DrawPoint point) {
  if (options_.repetition_penalty != 1) logits = penalise(logits, history);
  const int32_t best = largest_of(logits, point);
  if (options_.temperature == 0) return best;

  cpu::TokenWeights of{double(logits[size_t(best)]), options_.temperature, least_of_top_k(logits), shift_of(logits.size())};
  const bool top_p = options_.top_p < 1;
  const uint64_t min_p = std::max<uint64_t>(1, uint64_t(options_.min_p * std::exp2(of.bits)));
  of.least = std::max(of.least, logit_of_weight(top_p ? 1 : min_p, of));
  if (!top_p && min_p == 1) return draw_of_all(logits, of, point);
  const uint64_t all = collect(logits, of, top_p ? surely_enough(options_.top_p, of.bits, logits.size()) : min_p);
  Kept kept = top_p ? top_p_of(all) : Kept{};
  if (min_p > kept.least) kept = at_least(min_p);
  return reach(kept, 0, target_of(kept.sum, options_.seed, point));
}

std::span<const float> Sampler::penalise(std::span<const float> logits, std::span<const int32_t> history) {
  penalised_.assign(logits.begin(), logits.end());
  const float penalty = float(options_.repetition_penalty);
  for (int32_t id : history)  // from the original logit: a token that occurs twice is penalised once
    if (id >= 0 && size_t(id) < logits.size())
      penalised_[size_t(id)] = logits[size_t(id)] < 0 ? logits[size_t(id)] * penalty : logits[size_t(id)] / penalty;
  return penalised_;
}

// Temperature keeps the order of logits, so unscaled logits are compared. Only those above the k-th largest so far are collected.
float Sampler::least_of_top_k(std::span<const float> logits) {
  const size_t k = size_t(options_.top_k), most = 2 * k + kChunk;
  float least = -std::numeric_limits<float>::infinity();
  if (k == 0 || k >= logits.size()) return std::numeric_limits<float>::lowest();
  best_.resize(most + kChunk + cpu::kTokenSlack);
  size_t count = 0;
  const auto keep_best = [&] {
    std::nth_element(best_.begin(), best_.begin() + ptrdiff_t(k - 1), best_.begin() + ptrdiff_t(count), std::greater<>());
    least = best_[k - 1];
    count = k;
  };
  for (size_t first = 0; first < logits.size(); first += kChunk) {
    const std::span<const float> chunk = logits.subspan(first, std::min(kChunk, logits.size() - first));
    count += size_t(cpu::copy_logits_above(least, chunk.data(), int64_t(chunk.size()), best_.data() + count));
    if (count >= most) keep_best();
  }
  if (count >= k) keep_best();  // else all others are -inf
  return std::max(least, std::numeric_limits<float>::lowest());
}

// Collects the weights of `from` or more with their ids, in the order of ids, and returns the sum of all.
uint64_t Sampler::collect(std::span<const float> logits, const cpu::TokenWeights& of, uint64_t from) {
  uint64_t sum = 0;
  count_ = 0;
  for (size_t first = 0; first < logits.size(); first += kChunk) {
    if (const size_t room = count_ + kChunk + cpu::kTokenSlack; weights_.size() < room) {
      weights_.resize(2 * room);
      ids_.resize(2 * room);
    }
    const cpu::Weighed chunk = cpu::write_weights(of, logits.data() + first, int64_t(std::min(kChunk, logits.size() - first)),
                                                  int64_t(first), from, ids_.data() + count_, weights_.data() + count_);
    sum += chunk.sum;
    count_ += size_t(chunk.count);
  }
  return sum;
}

Sampler::Kept Sampler::at_least(uint64_t weight) const {
  return {weight - 1, 0, cpu::weights_around(weight - 1, weights_.data(), int64_t(count_)).sum_above};
}

// The fewest of the largest weights whose sum reaches p of `all`.
Sampler::Kept Sampler::top_p_of(uint64_t all) {
  const uint64_t wanted = std::clamp<uint64_t>(uint64_t(std::ceil(options_.top_p * double(all))), 1, all);
  const auto [least, sum_above] = weight_that_reaches(wanted);
  const uint64_t equal = (wanted - sum_above + least - 1) / least;
  return {least, equal, sum_above + equal * least};
}

// The weight at which the sum of the collected ones, the largest first, reaches `wanted`, and the sum of those above it. Every round of
// quickselect leaves those on one side of a pivot, in selected_.
std::pair<uint64_t, uint64_t> Sampler::weight_that_reaches(uint64_t wanted) {
  constexpr uint64_t kAll = uint64_t{1} << 63;
  constexpr size_t kSample = 31, kFew = 64;
  selected_.resize(std::max(selected_.size(), count_ + cpu::kTokenSlack));
  const uint64_t* from = weights_.data();
  size_t count = count_;
  uint64_t above = 0;  // the sum of the larger ones that are left out
  for (; count > kFew; from = selected_.data()) {
    std::array<uint64_t, kSample> sample;
    for (size_t i = 0; i < kSample; ++i) sample[i] = from[i * count / kSample];
    std::ranges::nth_element(sample, sample.begin() + kSample / 2);
    const uint64_t pivot = sample[kSample / 2];
    const auto [sum, equal] = cpu::weights_around(pivot, from, int64_t(count));
    const bool larger = above + sum >= wanted;
    if (!larger && above + sum + equal * pivot >= wanted) return {pivot, above + sum};
    if (!larger) above += sum + equal * pivot;
    count = size_t(cpu::copy_weights(larger ? pivot + 1 : 0, larger ? kAll - 1 : pivot, from, int64_t(count), selected_.data()));
  }
  std::array<uint64_t, kFew> last;
  std::copy_n(from, count, last.begin());
  std::sort(last.begin(), last.begin() + ptrdiff_t(count), std::greater<>());
  size_t i = 0;
  uint64_t sum = above;
  for (; sum + last[i] < wanted; sum += last[i++])
    if (last[i] != last[i + 1]) above = sum + last[i];
  return {last[i], above};
}

// The first of the kept tokens at which the sum of their weights, `sum` before the first, exceeds `target`: a chunk at a time, then one at
// a time.
int32_t Sampler::reach(Kept kept, uint64_t sum, uint64_t target) const {
  size_t first = 0;
  for (;; first += kChunk) {
    const auto [above, equal] = cpu::weights_around(kept.least, weights_.data() + first, int64_t(std::min(kChunk, count_ - first)));
    const uint64_t kept_equal = std::min(equal, kept.equal), in_chunk = above + kept_equal * kept.least;
    if (sum + in_chunk > target) break;
    sum += in_chunk;
    kept.equal -= kept_equal;
  }
  for (size_t i = first;; ++i) {
    const bool equal = weights_[i] == kept.least && kept.equal > 0;
    if (equal) --kept.equal;
    if (equal || weights_[i] > kept.least) sum += weights_[i];
    if (sum > target) return int32_t(ids_[i]);
  }
}

int32_t Sampler::draw_of_all(std::span<const float> logits, const cpu::TokenWeights& of, DrawPoint point) {
  const auto chunk = [&](size_t i) { return logits.subspan(i * kChunk, std::min(kChunk, logits.size() - i * kChunk)); };
  sums_.clear();
  for (size_t i = 0; i * kChunk < logits.size(); ++i) sums_.push_back(cpu::sum_of_weights(of, chunk(i).data(), int64_t(chunk(i).size())));
  const uint64_t all = std::accumulate(sums_.begin(), sums_.end(), uint64_t{0}), target = target_of(all, options_.seed, point);
  size_t i = 0;
  uint64_t sum = 0;
  while (sum + sums_[i] <= target) sum += sums_[i++];
  collect(chunk(i), of, 1);
  return int32_t(i * kChunk) + reach({}, sum, target);
}

}  // namespace weft
