#include "weft/generate/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "weft/base/check.h"
#include "weft/base/philox.h"
#include "weft/io/checksum.h"

namespace weft {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr auto kInverseFactorials = [] {
  std::array<double, 14> values{1};
  double factorial = 1;
  for (int i = 1; i < 14; ++i) values[size_t(i)] = 1 / (factorial *= i);
  return values;
}();

// e^x for x <= 0 with the same bits on every machine, which a C library does not promise: x = n ln 2 + r, the Taylor
// series of e^r to r^13 (|r| <= 0.35: below 2^-57), times 2^n. Below -708 it stays at e^-708. No branches: it vectorises.
double exp_of_nonpositive(double x) {
  constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kRounder = 0x1.8p52;  // leaves the nearest integer in the low bits of a sum
  x = x > -708 ? x : -708;
  const double shifted = x * 0x1.71547652b82fep0 + kRounder, n = shifted - kRounder;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  double e = kInverseFactorials[13];
  for (int i = 12; i >= 0; --i) e = kInverseFactorials[size_t(i)] + e * r;
  return e * std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
}

// Fraction bits of a weight, chosen so that the sum of `count` weights of at most 1 stays below 2^63.
int shift_of(size_t count) { return 62 - int(std::bit_width(count)); }

// A histogram of weights: those with the same six leading bits are one run; runs ascend with the weight.
constexpr size_t kRuns = 64 * 32;
size_t run_of(uint64_t weight) {
  const int width = int(std::bit_width(weight));
  return size_t(width) * 32 + size_t((width > 6 ? weight >> (width - 6) : weight << (6 - width)) & 31);
}

// [0, 1) in steps of 2^-53.
double unit_double(uint64_t seed, DrawPoint point) {
  const PhiloxBlock bits = philox({point.position, point.occurrence, uint32_t(point.prompt), uint32_t(point.prompt >> 32)},
                                  {uint32_t(seed), uint32_t(seed >> 32)});
  return double((uint64_t(bits[0]) << 32 | bits[1]) >> 11) * 0x1p-53;
}

// Block by block: the test for a larger value or a NaN vectorises; only a block with one is searched for its position.
int32_t largest_of(std::span<const float> logits, DrawPoint point) {
  constexpr size_t kRun = 64;
  size_t best = 0;
  bool usable = !logits.empty();
  for (size_t first = 0; first < logits.size(); first += kRun) {
    const std::span<const float> run = logits.subspan(first, std::min(kRun, logits.size() - first));
    const float most = logits[best];
    int larger = 0, unusable = 0;
    for (float logit : run) {
      larger |= logit > most;
      unusable |= !(logit < kInfinity);  // NaN too
    }
    usable &= !unusable;
    if (!larger) continue;
    for (size_t i = 0; i < run.size(); ++i)
      if (run[i] > logits[best]) best = first + i;
  }
  if (!usable) {
    check(!logits.empty(), "sampler", "there are no logits for position ", point.position);
    const auto bad = std::find_if(logits.begin(), logits.end(), [](float l) { return !(l < kInfinity); });
    fail(ErrorCode::device_fault, "sampler", "the logit of token ", bad - logits.begin(), " at position ", point.position, " is ", *bad);
  }
  if (logits[best] == -kInfinity) fail(ErrorCode::device_fault, "sampler", "every logit at position ", point.position, " is -inf");
  return int32_t(best);
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
  collect(logits, logits[size_t(best)]);
  if (options_.top_p < 1) keep_top_p();
  if (options_.min_p > 0) {
    const auto least = uint64_t(options_.min_p * std::exp2(shift_of(logits.size())));
    keep([&](size_t i) { return weights_[i] >= least; });
  }
  return draw(point);
}

std::span<const float> Sampler::penalise(std::span<const float> logits, std::span<const int32_t> history) {
  penalised_.assign(logits.begin(), logits.end());
  const float penalty = float(options_.repetition_penalty);
  for (int32_t id : history)  // from the original logit: a token that occurs twice is penalised once
    if (id >= 0 && size_t(id) < logits.size())
      penalised_[size_t(id)] = logits[size_t(id)] < 0 ? logits[size_t(id)] * penalty : logits[size_t(id)] / penalty;
  return penalised_;
}

// Collects the tokens that top-k keeps, in the order of ids, and their weights. Temperature keeps the order of logits, so unscaled
// logits are compared.
void Sampler::collect(std::span<const float> logits, float largest) {
  float least = std::numeric_limits<float>::lowest();
  if (options_.top_k > 0 && size_t(options_.top_k) < logits.size()) {
    best_.resize(size_t(options_.top_k));
    std::partial_sort_copy(logits.begin(), logits.end(), best_.begin(), best_.end(), std::greater<>());
    least = std::max(least, best_.back());
  }
  ids_.clear();
  for (size_t id = 0; id < logits.size(); ++id)
    if (logits[id] >= least) ids_.push_back(int32_t(id));
  exponents_.resize(ids_.size());
  weights_.resize(ids_.size());
  for (size_t i = 0; i < ids_.size(); ++i) exponents_[i] = (double(logits[size_t(ids_[i])]) - double(largest)) / options_.temperature;
  const double one = std::exp2(shift_of(logits.size()));
  for (size_t i = 0; i < ids_.size(); ++i) weights_[i] = uint64_t(int64_t(one * exp_of_nonpositive(exponents_[i])));
}

uint64_t Sampler::total() const { return std::accumulate(weights_.begin(), weights_.end(), uint64_t{0}); }

// The sums of the runs, from the largest weights down, find the run in which the sum reaches p; only that run is sorted.
void Sampler::keep_top_p() {
  const uint64_t all = total(), wanted = std::clamp<uint64_t>(uint64_t(std::ceil(options_.top_p * double(all))), 1, all);
  std::array<uint64_t, kRuns> sums{};
  for (uint64_t w : weights_) sums[run_of(w)] += w;
  size_t run = kRuns - 1;
  uint64_t sum = 0;  // over the runs above `run`
  while (sum + sums[run] < wanted) sum += sums[run--];
  ranked_.clear();
  for (size_t i = 0; i < ids_.size(); ++i)
    if (run_of(weights_[i]) == run) ranked_.push_back({weights_[i], ids_[i]});
  std::sort(ranked_.begin(), ranked_.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  size_t last = 0;
  for (sum += ranked_[0].first; sum < wanted; sum += ranked_[last].first) ++last;
  const auto [least, id] = ranked_[last];
  keep([&](size_t i) { return weights_[i] > least || (weights_[i] == least && ids_[i] <= id); });
}

template <class F>
void Sampler::keep(F wanted) {
  size_t kept = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (!wanted(i)) continue;
    ids_[kept] = ids_[i];
    weights_[kept++] = weights_[i];
  }
  ids_.resize(kept);
  weights_.resize(kept);
}

int32_t Sampler::draw(DrawPoint point) const {
  const uint64_t all = total(), target = std::min(all - 1, uint64_t(unit_double(options_.seed, point) * double(all)));
  size_t i = 0;
  for (uint64_t sum = weights_[0]; i + 1 < ids_.size() && sum <= target; sum += weights_[i]) ++i;
  return ids_[i];
}

}  // namespace weft
