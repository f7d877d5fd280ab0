#include "weft/train/shared_step.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/device/memory_use.h"
#include "weft/ops/clip_of_squares/clip_of_squares.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/gradient_squares/gradient_squares.h"
#include "weft/ops/uniform/uniform.h"

namespace weft {
namespace {

std::vector<bool> whole_of(const Optimizer& optimizer) {
  std::vector<bool> whole;
  for (size_t i = 0; i < optimizer.parameters().size(); ++i) whole.push_back(optimizer.whole(i));
  return whole;
}

int64_t bucket_elements(const StepOptions& options, const Communicator& ranks) {
  return options.bucket_elements ? options.bucket_elements : ParameterShards::bucket_elements(ranks.size());
}

// Of a parcel, all ranks together. Starting the messages of a parcel on a GPU costs about as much as sending several MiB over NVLink
// (assumed in bench/scaling_model.py, not measured), so there a bucket is one parcel, up to 64 MiB.
int64_t parcel_elements(const Optimizer& optimizer, const StepOptions& options, const Communicator& ranks) {
  const int64_t least = bucket_elements(options, ranks);
  const bool on_gpu = !optimizer.parameters().empty() && optimizer.parameters()[0].tensor.device().name().starts_with("cuda");
  return on_gpu && !options.bucket_elements ? std::max(least, int64_t(16) << 20) : least;
}

// The facts that ranks exchange at the start of a step.
struct Facts {
  int64_t present = 1;  // 0: from a rank that exists in a plan only, taken to be like this one
  int64_t sequences = 0, tokens = 0, targets = 0;
  int64_t rows = 0, columns = 0;  // of each sequence; 0: they differ
  int64_t stop = 0;
  double waited = 0;
};

Facts facts_of(std::span<const TokenBatch> sequences, bool stop, double waited) {
  Facts facts{.sequences = int64_t(sequences.size()), .stop = stop, .waited = waited};
  if (!sequences.empty()) facts.rows = sequences.front().rows, facts.columns = sequences.front().tokens;
  for (const TokenBatch& each : sequences) {
    facts.tokens += int64_t(each.ids.size());
    facts.targets += each.counted();
    if (each.rows != facts.rows || each.tokens != facts.columns) facts.rows = facts.columns = 0;
  }
  return facts;
}

float tree_sum(std::span<const float> values) {
  if (values.size() == 1) return values[0];
  const size_t half = std::bit_floor(values.size() - 1);
  return tree_sum(values.first(half)) + tree_sum(values.subspan(half));
}

double number(float value) { return std::isnan(value) ? NAN : double(value); }  // the sign of a NaN means nothing

}  // namespace

// The step as all ranks see it; without shares if one of them wishes to stop.
struct TrainingStep::WholeStep {
  std::vector<Facts> ranks;
  bool planned = false;
  int64_t at_once = 1, micro_batches = 0;
  std::vector<Share> shares;  // by rank
};

TrainingStep::Shared::Shared(Optimizer& optimizer, const StepOptions& options, Communicator& ranks)
    : ranks(ranks),
      optimizer(optimizer),
      shards(optimizer.parameters(), whole_of(optimizer), ranks.size(), bucket_elements(options, ranks)),
      exchange(ranks, optimizer, shards, parcel_elements(optimizer, options, ranks)) {}

std::vector<Tensor> TrainingStep::Shared::open(Sharding sharding) {
  for (size_t i = 0; i < shards.parameters(); ++i) {
    const int64_t all = optimizer.parameters()[i].tensor.numel();
    const Range owned = sharding == Sharding::none ? Range{0, all} : shards.range(i, ranks.rank());
    check(optimizer.owned(i).count == owned.count && (owned.count == 0 || optimizer.owned(i) == owned), "train", "the optimizer owns ",
          optimizer.owned(i).count, " elements of ", optimizer.parameters()[i].name, ", expected ", owned.count, " of rank ", ranks.rank(),
          ": make it with the ranges of ParameterShards");
  }
  std::vector<Tensor> summed;
  if (sharding != Sharding::gradients) {
    optimizer.allocate_gradients();
    for (const Parameter& p : optimizer.parameters()) summed.push_back(p.tensor.grad());
    return summed;
  }
  const MemoryScope scope(optimizer.parameters().front().tensor.device(), MemoryUse::gradients);
  for (size_t i = 0; i < shards.parameters(); ++i) {
    const Range owned = optimizer.owned(i);
    ranges.push_back(owned.count ? zeros(optimizer.parameters()[i].tensor.device(), {owned.count}) : Tensor());
    if (ranges.back()) summed.push_back(ranges.back());
  }
  exchange.release_gradients(ranges);
  optimizer.set_gradient_ranges(ranges);
  return summed;
}

TrainingStep::WholeStep TrainingStep::agree(std::span<const TokenBatch> sequences, bool stop) {
  const double waited = ranks_.seconds_waited();
  WholeStep step{.ranks = ranks_.all_gather_values(facts_of(sequences, stop, waited - shared_->waited)), .shares = {}};
  shared_->waited = waited;
  for (Facts& each : step.ranks)
    if (!each.present) each = step.ranks[size_t(ranks_.rank())], step.planned = true;
  if (std::any_of(step.ranks.begin(), step.ranks.end(), [](const Facts& each) { return each.stop != 0; })) return step;
  const auto some = std::find_if(step.ranks.begin(), step.ranks.end(), [](const Facts& each) { return each.sequences > 0; });
  check(some != step.ranks.end(), "train", "the step has no sequences");
  int64_t all = 0;
  bool one_shape = some->rows > 0;
  for (const Facts& each : step.ranks) {
    all += each.sequences;
    one_shape &= each.sequences == 0 || (each.rows == some->rows && each.columns == some->columns);
  }
  step.at_once = one_shape ? sequences_per_micro_batch(all, some->rows * some->columns, options_.micro_batch_tokens) : 1;
  step.micro_batches = all / step.at_once;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const int64_t got = step.ranks[size_t(rank)].sequences;
    Share share;
    if (step.planned)
      for (int64_t i = 0; i < got / step.at_once; ++i) share.micro_batches.push_back(i);
    else
      share = share_of(step.micro_batches, rank, ranks_.size(), sharding_);
    const int64_t expected = int64_t(share.micro_batches.size()) * step.at_once;
    check(got == expected, "train", ranks_.name_of(rank), " has ", got, " of the step's ", all, " sequences, expected ", expected);
    step.shares.push_back(std::move(share));
  }
  return step;
}

// The gradients of this rank's micro-batches, summed over all ranks in the ranges that each owns.
void TrainingStep::sum_shared(const WholeStep& step, std::span<const TokenBatch> sequences, const std::function<void(int64_t)>& before) {
  const std::vector<uint32_t> random = model_.has_dropout() ? random_state_.to_host<uint32_t>() : std::vector<uint32_t>();
  const std::vector<int64_t>& indices = step.shares[size_t(ranks_.rank())].micro_batches;
  const int64_t own = int64_t(indices.size());
  const int64_t rounds = sharding_ == Sharding::gradients ? (step.micro_batches + ranks_.size() - 1) / ranks_.size() : own;
  tree_.reserve(rounds);
  optimizer_.zero_grad();
  double queued_seconds = 0;
  for (int64_t i = 0; i < rounds; ++i) {
    report_progress({.what = "micro-batch", .done = i, .total = rounds});
    std::function<void()> pass;
    if (i < own) {
      if (before) before(i * step.at_once);
      set_micro_batch(stacked(sequences.subspan(size_t(i * step.at_once), size_t(step.at_once))));
      if (!random.empty()) micro_batch_random_.write(later_random_state(random, uint64_t(indices[size_t(i)])));
      pass = [&] {
        zero(loss_);
        run_micro_batch();
        copy(loss_.reshape({1}), shared_->losses.part(0, i, i + 1));
      };
    }
    if (sharding_ == Sharding::gradients) {
      const int64_t senders = std::min<int64_t>(ranks_.size(), step.micro_batches - i * ranks_.size());
      shared_->exchange.sum(pass, int(senders), {});
      tree_.add(i, rounds, false);
    } else if (i + 1 < own) {
      shared_->exchange.watch(pass);
      tree_.add(i, own, false);
    } else {
      shared_->exchange.sum(pass, ranks_.size(), [&](size_t value) { tree_.finish(value, own); });
    }
    limit_queue(queued_seconds);
  }
  report_progress({.what = "micro-batch", .done = rounds, .total = rounds});
}

// Each rank sums the squares of the pieces it owns; all add all pieces in the order of one process. Losses travel with them.
double TrainingStep::shared_loss_and_norm(const WholeStep& step) {
  const ParameterShards& shards = shared_->shards;
  const size_t rank = size_t(ranks_.rank()), micro_batches = step.shares[rank].micro_batches.size();
  std::vector<float> own = shared_->losses.part(0, 0, int64_t(micro_batches)).to_host<float>();
  std::vector<Tensor> owned;
  for (size_t i = 0; i < shards.parameters(); ++i) {
    const Range range = shards.range(i, ranks_.rank());
    if (range.count == 0) continue;
    owned.push_back(shared_->ranges.empty() ? range_of(optimizer_.parameters()[i].tensor.grad(), range) : shared_->ranges[i]);
  }
  if (!owned.empty()) {
    const std::vector<float> squares = gradient_squares(model_.device(), owned).to_host<float>();
    own.insert(own.end(), squares.begin(), squares.end());
  }
  const std::vector<std::string> all =
      ranks_.all_gather(std::string(reinterpret_cast<const char*>(own.data()), own.size() * sizeof(float)));
  std::vector<float> losses(size_t(step.micro_batches));
  std::vector<std::vector<float>> squares;
  for (size_t r = 0; r < all.size(); ++r) {
    const std::vector<int64_t>& indices = step.shares[r].micro_batches;
    std::vector<float> values(indices.size() + shards.norm_pieces(int(r)));
    check(step.planned || all[r].size() == values.size() * sizeof(float), "train", ranks_.name_of(int(r)), " sent ", all[r].size(),
          " bytes of losses and norms, expected ", values.size() * sizeof(float));
    std::memcpy(values.data(), all[r].data(), all[r].size());
    for (size_t i = 0; i < indices.size(); ++i) losses[size_t(indices[i])] = values[i];
    squares.emplace_back(values.begin() + ptrdiff_t(indices.size()), values.end());
  }
  const std::vector<float> ordered = shards.in_order(squares);
  const Tensor pieces = Tensor::from_host(model_.device(), {int64_t(ordered.size())}, ordered);
  clip_of_squares(model_.device().stream(),
                  {.squares = pieces.view(), .max_norm = float(options_.clip), .norm = norm_.mut_view(), .clip = clip_.mut_view()});
  return number(tree_sum(losses));
}

StepResult TrainingStep::shared_gradients(std::span<const TokenBatch> sequences, const std::function<void(int64_t)>& before, bool stop) {
  const auto start = std::chrono::steady_clock::now();
  const WholeStep step = agree(sequences, stop);
  StepResult result;
  for (const Facts& each : step.ranks) {
    result.tokens += each.tokens;
    result.targets += each.targets;
    result.stop |= each.stop != 0;
    result.seconds_waited.push_back(each.waited);
  }
  if (result.stop) return result;
  check(result.targets > 0, "train", "the step has no target that counts");
  count_.write({float(result.targets)});
  share_.write({float(step.at_once) / float(step.micro_batches * step.at_once)});  // share of all ranks' sequences
  const int64_t own = int64_t(step.shares[size_t(ranks_.rank())].micro_batches.size());
  if (!shared_->losses || shared_->losses.numel() < own) shared_->losses = zeros(model_.device(), {own});
  sum_shared(step, sequences, before);
  if (sharding_ == Sharding::none) shared_->exchange.gather_gradients();
  result.loss = shared_loss_and_norm(step);
  result.gradient_norm = number(norm_.item<float>());
  if (model_.has_dropout()) random_state_.write(later_random_state(random_state_.to_host<uint32_t>(), uint64_t(step.micro_batches)));
  micro_batch_seconds_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(std::max<int64_t>(1, own));
  return result;
}

const std::vector<int>& TrainingStep::additions() const {
  static const std::vector<int> none;
  return shared_ ? shared_->exchange.additions() : none;
}

void TrainingStep::set_additions(std::vector<int> additions) {
  if (shared_) shared_->exchange.set_additions(std::move(additions));
}

}  // namespace weft
