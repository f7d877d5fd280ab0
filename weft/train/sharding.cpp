#include "weft/train/sharding.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "weft/base/check.h"
#include "weft/ops/gradient_squares/gradient_squares.h"
#include "weft/train/step.h"

namespace weft {
namespace {

constexpr std::string_view kNames[] = {"none", "optimizer", "gradients"};

// The power of two w with ceil(n / w) = ranks; 0: there is none.
int64_t run_length(int64_t n, int ranks) {
  for (int64_t w = 1; w <= n; w *= 2)
    if ((n + w - 1) / w == ranks) return w;
  return 0;
}

std::string rule_text(int ranks, Sharding sharding) {
  if (sharding == Sharding::gradients && !std::has_single_bit(unsigned(ranks)))
    return join("--shard gradients needs ", ranks, " of them, or a number of ranks that is a power of two");
  if (sharding == Sharding::gradients) return join("--shard gradients needs ", ranks, " or more of them");
  return "each rank takes a run of 1, 2, 4, 8, ... of them, the last one what is left, and none may be left out";
}

// Whether every rank gets the same number. Settings that give that are named first.
bool shares_evenly(int64_t n, int ranks, Sharding sharding) {
  return can_share(n, ranks, sharding) && n % ranks == 0 && (sharding == Sharding::gradients || std::has_single_bit(uint64_t(n / ranks)));
}

// Micro-batches of at least today's size first.
std::string batch_that_works(const StepSize& now, int ranks, Sharding sharding) {
  const int64_t farthest = std::min<int64_t>(4096, now.batch + 4 * ranks * std::max<int64_t>(1, now.pass_tokens / now.sequence_tokens));
  for (bool even : {true, false})
    for (int64_t away = 1; away <= farthest; ++away)
      for (int64_t batch : {now.batch + away, now.batch - away}) {
        StepSize step = now;
        step.batch = batch;
        if (batch < 1) continue;
        const int64_t n = step.micro_batches();
        const bool works =
            even ? shares_evenly(n, ranks, sharding) && step.sequences_at_once() >= now.sequences_at_once() : can_share(n, ranks, sharding);
        if (works) return join("--batch ", batch);
      }
  return "";
}

// Shorter micro-batches before longer ones, which need more memory.
std::string pass_tokens_that_work(const StepSize& now, int ranks, Sharding sharding) {
  const int64_t size = now.sequences_at_once(), all = now.batch * now.accumulate;
  std::vector<int64_t> sizes;
  for (int64_t other = size - 1; other >= 1; --other) sizes.push_back(other);
  for (int64_t other = size + 1; other <= all; ++other) sizes.push_back(other);
  for (bool even : {true, false})
    for (int64_t other : sizes)
      if (all % other == 0 && (even ? shares_evenly : can_share)(all / other, ranks, sharding))
        return join("--pass-tokens ", other * now.sequence_tokens);
  return "";
}

// "--batch 12 or --pass-tokens 512"; "": nothing would do.
std::string advice(const StepSize& now, int ranks, Sharding sharding) {
  const std::string batch = batch_that_works(now, ranks, sharding), tokens = pass_tokens_that_work(now, ranks, sharding);
  return join(batch, batch.empty() || tokens.empty() ? "" : " or ", tokens);
}

void check_share(int64_t n, int ranks, Sharding sharding, const std::string& instead) {
  if (can_share(n, ranks, sharding)) return;
  fail(ErrorCode::invalid_argument, "train", n, n == 1 ? " micro-batch" : " micro-batches", " cannot be shared by ", ranks,
       " ranks: ", rule_text(ranks, sharding), instead.empty() ? "" : join("; use ", instead));
}

}  // namespace

Sharding sharding_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return Sharding(i);
  fail(ErrorCode::invalid_argument, "train", "shard is '", name, "', expected none, optimizer or gradients");
}

std::string_view name(Sharding sharding) { return kNames[size_t(sharding)]; }

Tensor range_of(const Tensor& tensor, Range range) { return tensor.detach().reshape({tensor.numel()}).part(0, range.first, range.end()); }

bool can_share(int64_t n, int ranks, Sharding sharding) {
  if (n < ranks) return false;
  if (ranks == 1 || n == ranks) return true;
  return sharding == Sharding::gradients ? std::has_single_bit(unsigned(ranks)) : run_length(n, ranks) > 0;
}

Share share_of(int64_t n, int rank, int ranks, Sharding sharding) {
  check_share(n, ranks, sharding, "");
  Share share;
  if (sharding == Sharding::gradients && ranks > 1) {
    for (int64_t i = rank; i < n; i += ranks) share.micro_batches.push_back(i);
    return share;
  }
  const int64_t w = ranks == 1 ? n : run_length(n, ranks);
  for (int64_t i = rank * w; i < std::min(n, (rank + 1) * w); ++i) share.micro_batches.push_back(i);
  return share;
}

int64_t StepSize::sequences_at_once() const { return sequences_per_micro_batch(batch * accumulate, sequence_tokens, pass_tokens); }

Share share_of(const StepSize& step, const Communicator& ranks, Sharding sharding) {
  if (!can_share(step.micro_batches(), ranks.size(), sharding))
    check_share(step.micro_batches(), ranks.size(), sharding, advice(step, ranks.size(), sharding));
  return share_of(step.micro_batches(), ranks, sharding);
}

ParameterShards::ParameterShards(const std::vector<Parameter>& parameters, const std::vector<bool>& whole, int ranks,
                                 int64_t bucket_elements)
    : ranks_(ranks), ranges_(parameters.size() * size_t(ranks)) {
  check(whole.empty() || whole.size() == parameters.size(), "sharding", "got ", whole.size(), " flags for ", parameters.size(),
        " parameters");
  int64_t open = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (i == 0 || open >= bucket_elements) buckets_.push_back({i, i}), open = 0;
    elements_.push_back(parameters[i].tensor.numel());
    open += elements_.back();
    buckets_.back().end = i + 1;
  }
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) cut(bucket, whole);
}

// A unit, which is not cut, goes to the rank whose even share its middle lies in. Shares start at another rank in each bucket, so that
// uneven ones even out.
void ParameterShards::cut(size_t bucket, const std::vector<bool>& whole) {
  const auto [first, end] = buckets_[bucket];
  const int64_t all = std::accumulate(elements_.begin() + ptrdiff_t(first), elements_.begin() + ptrdiff_t(end), int64_t(0));
  int64_t before = 0;
  for (size_t i = first; i < end; before += elements_[i++]) {
    const int64_t unit = !whole.empty() && whole[i] ? elements_[i] : kCut;
    for (int64_t at = 0; at < elements_[i]; at += unit) {
      const int64_t count = std::min(unit, elements_[i] - at), middle = 2 * (before + at) + count;  // in halves
      const int64_t rank = (middle * ranks_ / (2 * all) + int64_t(bucket)) % ranks_;
      Range& range = ranges_[i * size_t(ranks_) + size_t(rank)];
      if (range.count == 0) range.first = at;
      range.count += count;
    }
  }
}

std::vector<Range> ParameterShards::of_rank(int rank) const {
  std::vector<Range> ranges;
  for (size_t i = 0; i < elements_.size(); ++i) ranges.push_back(range(i, rank));
  return ranges;
}

size_t ParameterShards::norm_pieces(int rank) const {
  int64_t pieces = 0;
  for (size_t i = 0; i < elements_.size(); ++i) pieces += weft::norm_pieces(range(i, rank).count);
  return size_t(pieces);
}

std::vector<float> ParameterShards::in_order(const std::vector<std::vector<float>>& pieces) const {
  std::vector<float> all;
  std::vector<size_t> next(pieces.size());
  for (size_t i = 0; i < elements_.size(); ++i) {
    std::vector<int> owners;
    for (int rank = 0; rank < ranks_; ++rank)
      if (range(i, rank).count) owners.push_back(rank);
    std::sort(owners.begin(), owners.end(), [&](int a, int b) { return range(i, a).first < range(i, b).first; });
    for (int rank : owners)
      for (int64_t left = weft::norm_pieces(range(i, rank).count); left > 0; --left)
        all.push_back(pieces[size_t(rank)][next[size_t(rank)]++]);
  }
  return all;
}

}  // namespace weft
