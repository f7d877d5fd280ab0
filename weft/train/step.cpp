#include "weft/train/step.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "weft/autograd/backward.h"
#include "weft/base/check.h"
#include "weft/base/progress.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/ops/uniform/uniform.h"
#include "weft/tensor/node.h"
#include "weft/train/shared_step.h"

namespace weft {

bool StepResult::finite() const { return std::isfinite(loss) && std::isfinite(gradient_norm); }

int64_t sequences_per_micro_batch(std::span<const TokenBatch> sequences, int64_t tokens) {
  const TokenBatch& first = sequences.front();
  const bool one_shape = std::all_of(sequences.begin(), sequences.end(),
                                     [&](const TokenBatch& each) { return each.rows == first.rows && each.tokens == first.tokens; });
  return one_shape ? sequences_per_micro_batch(int64_t(sequences.size()), int64_t(first.ids.size()), tokens) : 1;
}

int64_t sequences_per_micro_batch(int64_t sequences, int64_t sequence_tokens, int64_t tokens) {
  int64_t count = std::clamp(tokens / sequence_tokens, int64_t(1), sequences);
  while (sequences % count) --count;
  return count;
}

namespace {

// The f32 tensors that a micro-batch is computed in.
std::vector<Tensor> summed(const Tensor& loss, Optimizer& optimizer) { return {loss, optimizer.allocate_gradients()}; }

int64_t targets_of(std::span<const TokenBatch> sequences) {
  int64_t targets = 0;
  for (const TokenBatch& each : sequences) targets += each.counted();
  check(targets > 0, "train", "the step has no target that counts");
  return targets;
}

double number(float value) { return std::isnan(value) ? NAN : double(value); }  // the sign of a NaN means nothing

}  // namespace

// A run of a step's micro-batches.
struct TrainingStep::Node {
  std::span<const TokenBatch> sequences;  // of the whole step
  size_t at_once;                         // sequences in a micro-batch
  int64_t first, count;
};

TrainingStep::TrainingStep(Model& model, Optimizer& optimizer, const StepOptions& options, Communicator& ranks, Sharding sharding)
    : model_(model),
      optimizer_(optimizer),
      options_(options),
      ranks_(ranks),
      sharding_(sharding),
      random_state_(weft::random_state(model.device(), options.seed)),
      count_(zeros(model.device(), {})),
      share_(zeros(model.device(), {})),
      loss_(zeros(model.device(), {})),
      norm_(zeros(model.device(), {})),
      clip_(zeros(model.device(), {})),
      micro_batch_random_(weft::random_state(model.device(), options.seed)),
      shared_(ranks.size() == 1 ? nullptr : std::make_unique<Shared>(optimizer, options, ranks)),
      tree_(shared_ ? shared_->open(sharding) : summed(loss_, optimizer)) {}

TrainingStep::~TrainingStep() = default;

// Writes ids, targets and the bounds of documents into the tensors that captured launches read.
void TrainingStep::set_micro_batch(const TokenBatch& batch) {
  const std::vector<int32_t> bounds = batch.document_bounds();
  if (!ids_ || ids_.shape() != Shape{batch.rows, batch.tokens} || (documents_ ? documents_.numel() : 0) != int64_t(bounds.size())) {
    micro_batch_.forget();
    ids_ = batch.upload_ids(model_.device());
    targets_ = batch.upload_targets(model_.device());
    documents_ = batch.upload_documents(model_.device());
    if (model_.config().router_loss > 0) real_ = Tensor::from_host(model_.device(), {batch.rows, batch.tokens}, batch.real());
    return;
  }
  if (real_) real_.write(batch.real());
  ids_.write(batch.ids);
  targets_.write(batch.targets);
  if (documents_) documents_.write(bounds);
}

void TrainingStep::run_micro_batch() {
  const bool drops = model_.has_dropout();
  LossOptions options{
      .pad_id = kIgnored, .count = count_, .dropout = drops ? micro_batch_random_ : Tensor(), .recompute = options_.recompute};
  options.documents = documents_;
  options.share = share_;
  options.real = real_;
  const Tensor loss = model_.loss(ids_, targets_, options);
  loss.backward();
  const NoGrad no_grad;
  add_assign(loss_, loss.detach());
}

void TrainingStep::run(Replayed& launches, bool watched, const std::function<void()>& work) {
  watched ? work() : void(launches.run(model_.device().stream(), work));
}

// Launches are queued ahead of the device: at most about half a second of them, so that a stop need not wait for more.
void TrainingStep::limit_queue(double& queued_seconds) {
  constexpr double kMost = 0.5;
  queued_seconds += micro_batch_seconds_;
  if (queued_seconds < kMost || model_.device().stream().synchronous()) return;
  model_.device().synchronize();
  queued_seconds = 0;
}

// The sum of the node's micro-batches in the gradients and in loss_. `before`: the caller looks at every tensor, nothing is replayed.
void TrainingStep::sum_node(const Node& node, const std::function<void(int64_t)>& before) {
  const bool watched = bool(before);
  const std::vector<uint32_t> random = model_.has_dropout() ? random_state_.to_host<uint32_t>() : std::vector<uint32_t>();
  count_.write({float(targets_of(node.sequences))});
  share_.write({float(node.at_once) / float(node.sequences.size())});
  tree_.reserve(node.count);
  run(begin_, watched, [&] {
    const NoGrad no_grad;
    optimizer_.zero_grad();
    zero(loss_);
  });
  double queued_seconds = 0;
  for (int64_t i = 0; i < node.count; ++i) {
    report_progress({.what = "micro-batch", .done = i, .total = node.count});
    const size_t sequence = size_t(node.first + i) * node.at_once;
    if (before) before(int64_t(sequence));
    set_micro_batch(stacked(node.sequences.subspan(sequence, node.at_once)));
    if (!random.empty()) micro_batch_random_.write(later_random_state(random, uint64_t(node.first + i)));
    run(micro_batch_, watched, [&] { run_micro_batch(); });
    tree_.add(i, node.count, !watched);
    limit_queue(queued_seconds);
  }
  report_progress({.what = "micro-batch", .done = node.count, .total = node.count});
}

double TrainingStep::gradients_of_node(std::span<const TokenBatch> sequences, int64_t first, int64_t count) {
  check(!shared_, "train", "nodes of a step are computed by one process, not by ", ranks_.size(), " ranks");
  const size_t at_once = size_t(sequences_per_micro_batch(sequences, options_.micro_batch_tokens));
  const int64_t all = int64_t(sequences.size() / at_once);
  check(GradientTree::is_node(first, count, all), "train", "the micro-batches ", first, " to ", first + count - 1,
        " are not a node of the binary tree over ", all);
  sum_node({sequences, at_once, first, count}, {});
  return number(loss_.item<float>());
}

StepResult TrainingStep::gradients(std::span<const TokenBatch> sequences, const std::function<void(int64_t)>& before, bool stop) {
  if (shared_) return shared_gradients(sequences, before, stop);
  if (stop) return {.stop = true};
  const auto start = std::chrono::steady_clock::now();
  StepResult result{.targets = targets_of(sequences)};
  for (const TokenBatch& each : sequences) result.tokens += int64_t(each.ids.size());
  const size_t at_once = size_t(sequences_per_micro_batch(sequences, options_.micro_batch_tokens));
  const int64_t count = int64_t(sequences.size() / at_once);
  sum_node({sequences, at_once, 0, count}, before);
  run(end_, bool(before), [&] {
    GradientNormArgs args{.grads = {}, .max_norm = float(options_.clip), .norm = norm_.mut_view(), .clip = clip_.mut_view()};
    for (const Parameter& p : optimizer_.parameters()) args.grads.push_back(p.tensor.grad().view());
    gradient_norm(model_.device().stream(), args);
  });
  result.loss = number(loss_.item<float>());
  result.gradient_norm = number(norm_.item<float>());
  if (model_.has_dropout()) random_state_.write(later_random_state(random_state_.to_host<uint32_t>(), uint64_t(count)));
  micro_batch_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / double(count);
  return result;
}

void TrainingStep::apply(double learning_rate) {
  report_progress({.what = "update of the weights", .total = 1});
  optimizer_.set_learning_rate(learning_rate);
  optimizer_.begin_step();
  if (shared_) {
    optimizer_.update(clip_);
    if (sharding_ != Sharding::none) shared_->exchange.gather_weights();
  } else {
    update_.run(model_.device().stream(), [&] { optimizer_.update(clip_); });
  }
  report_progress({.what = "update of the weights", .done = 1, .total = 1});
}

}  // namespace weft
