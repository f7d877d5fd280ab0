// The steps of a run, and what is done with a step that is not finite.
#include <chrono>
#include <limits>
#include <optional>

#include "weft/base/check.h"
#include "weft/train/capture.h"
#include "weft/train/trainer.h"

namespace weft {

std::vector<TokenBatch> Trainer::sequences_of(const std::vector<int64_t>& micro_batches) const {
  std::vector<TokenBatch> sequences;
  const int64_t at_once = sequences_per_step() / plan_.micro_batches;
  for (int64_t micro_batch : micro_batches)
    for (int64_t i = 0; i < at_once; ++i) sequences.push_back(problem_.data->training_sequence(position_ + micro_batch * at_once + i));
  return sequences;
}

void Trainer::set_random_state(const std::vector<uint32_t>& state) { training_->random_state().write(state); }

// Several ranks stop where all hear of it: at the start of a step.
StepResult Trainer::computed(std::span<const TokenBatch> own) {
  if (!ranks_.several()) return training_->gradients(own);
  const bool stop = monitor_.stop_requested() || failure_;
  const RunMonitor::Finishing finishing(monitor_);
  const StepResult result = training_->gradients(own, {}, stop);
  if (result.stop) throw Stopped();
  return result;
}

// The gradients of the next step; ends the run if they are not finite, unless the step may be skipped. A stop restores the random state.
StepResult Trainer::gradients(std::span<const TokenBatch> own, const std::vector<uint32_t>& random_state, bool may_skip) {
  try {
    const StepResult result = computed(own);
    if (!result.finite() && !may_skip) stop_at_bad(result, own, random_state);
    return result;
  } catch (const Stopped&) {
    set_random_state(random_state);
    throw;
  }
}

void Trainer::update(double rate) {
  const RunMonitor::Finishing finishing(monitor_);  // a stop in the middle of an update would leave some weights updated and others not
  training_->apply(rate);
  device_->synchronize();
}

void Trainer::note_skipped(const StepResult& result) {
  ++skipped_;
  ++skipped_in_a_row_;
  progress_.note(join("step ", step_ + 1, " is skipped: its loss is ", result.loss, ", its gradient norm ", result.gradient_norm, "; ",
                      skipped_, skipped_ == 1 ? " step" : " steps", " skipped so far"));
}

// A skipped step counts as a step: the schedule goes on, its sequences are read, its random numbers are taken. Loss and norm are the same
// on all ranks, so they skip alike.
StepRecord Trainer::train_one() {
  constexpr int64_t kMostSkipped = 100;  // in a row: then the weights are to blame, not the data
  const auto start = std::chrono::steady_clock::now();
  const double waited = ranks_.communicator().seconds_waited();
  const std::vector<TokenBatch> own = own_sequences();
  monitor_.set_title(join("step ", step_ + 1, " of ", steps_));
  const bool may_skip = config_.on_bad_step == "skip" && skipped_in_a_row_ < kMostSkipped;
  const StepResult result = gradients(own, training_->random_state().to_host<uint32_t>(), may_skip);
  const double rate = learning_rate(schedule_, step_ + 1);
  if (result.finite()) {
    update(rate);
    skipped_in_a_row_ = 0;
  } else {
    note_skipped(result);
  }
  monitor_.set_title("");
  ++step_;
  position_ += sequences_per_step();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  seconds_ += seconds;
  step_seconds_ += seconds;
  waited_ += ranks_.communicator().seconds_waited() - waited;
  const double own_flops = plan_.flops_of(own, double(share_.micro_batches.size()) / double(plan_.micro_batches));
  return {step_,
          result.loss,
          rate,
          result.gradient_norm,
          double(result.tokens) / seconds,
          utilisation_.of_step(own_flops, seconds),
          seconds_,
          double(position_) / double(problem_.data->sequences_per_epoch()),
          !result.finite(),
          double(result.targets) / double(result.tokens)};
}

// The first tensor that is not finite, as a text; of several ranks the first in the order of one process. Computes the step again.
std::string Trainer::bad_tensor(std::span<const TokenBatch> own) {
  std::optional<RunMonitor::Finishing> finishing;
  if (ranks_.several()) finishing.emplace(monitor_);  // a rank that left the step would keep the others waiting
  std::optional<BadTensor> bad = find_bad_tensor(*training_, *optimizer_, own);
  const char* none = "a second computation is finite";
  if (!ranks_.several() || (bad && bad->op == "weights")) return bad ? bad_text(*bad) : none;  // all ranks have the same weights
  Communicator& ranks = ranks_.communicator();
  int64_t first = std::numeric_limits<int64_t>::max();
  if (bad) {
    const int64_t at_once = sequences_per_step() / plan_.micro_batches;
    first = bad->sequence = share_.micro_batches[size_t(bad->sequence / at_once)] * at_once + bad->sequence % at_once;
  }
  const std::vector<int64_t> all = ranks.all_gather_values(first);
  const std::vector<std::string> texts = ranks.all_gather(bad ? bad_text(*bad) : "");
  const int rank = int(std::min_element(all.begin(), all.end()) - all.begin());
  return texts[size_t(rank)].empty() ? none : join(ranks.name_of(rank), ": ", texts[size_t(rank)]);
}

// Ends the run. Reports what went wrong even if the disk is too full for the capture, or a stop ends the capture or the search.
void Trainer::stop_at_bad(const StepResult& result, std::span<const TokenBatch> own, const std::vector<uint32_t>& random_state) {
  progress_.finish();
  const int64_t step = step_ + 1;
  const std::string capture = path(join("capture-", step, ".safetensors").c_str());
  std::string kept = join("weft train --replay ", capture, " repeats it"), bad;
  const auto keep = [&](auto write) {
    try {
      write();
    } catch (const Error& error) {
      kept = join("the capture could not be written: ", error.what());
    } catch (const Stopped&) {
      kept = "the capture is not written, as the run was to stop";
    }
  };
  const auto find = [&] {
    set_random_state(random_state);
    try {
      bad = bad_tensor(own);
    } catch (const Stopped&) {  // of one process
      bad = "the search for the first tensor that is not finite was stopped";
    }
  };
  if (ranks_.several()) find();  // all ranks look; then rank 0 writes what they found
  ranks_.first([&] {
    std::vector<int64_t> all(size_t(plan_.micro_batches));
    for (size_t i = 0; i < all.size(); ++i) all[i] = int64_t(i);
    set_random_state(random_state);
    keep([&] {
      write_capture(capture, config_, *model_, training_->random_state(), sequences_of(all),
                    {step, result.loss, result.gradient_norm, bad});
    });
    if (!ranks_.several()) find();
    keep([&] { report(join("stopped at step ", step)); });
    const std::string text =
        join("step ", step, " gave a loss of ", result.loss, " and a gradient norm of ", result.gradient_norm, "; ", bad,
             skipped_in_a_row_ ? join("; the ", skipped_in_a_row_, " steps before it were skipped") : "", "; ", kept);
    throw AgreedError(ErrorCode::device_fault, "train", text);
  });
}

// Finds weights that the last update made infinite before they are saved.
void Trainer::check_next_step() {
  const std::vector<uint32_t> random_state = training_->random_state().to_host<uint32_t>();
  gradients(own_sequences(), random_state, /*may_skip=*/false);
  set_random_state(random_state);
}

}  // namespace weft
