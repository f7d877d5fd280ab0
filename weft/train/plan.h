// Memory and work of a run, known before anything is allocated: the real step runs on a counting device.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weft/base/cost.h"
#include "weft/device/device.h"
#include "weft/train/setup.h"

namespace weft {

struct Plan {
  PoolStats memory;           // high-water marks of the pool, by use and in total; of one rank
  Cost step;                  // of one optimizer step, the mean over the steps of an epoch
  int64_t parameters = 0;     // trained
  int64_t kept = 0;           // frozen: the model's below its adapters
  int64_t tokens = 0;         // read by one step
  int64_t micro_batches = 1;  // of one step
  double counted_share = 1;   // of the data's tokens, padding aside: those that count in the loss
  int ranks = 1;
  std::vector<int> additions = {};  // of several ranks: TrainingStep::additions()

  // FLOPs of a step whose rows are one document each: attention's, and all others. Attention inside shorter documents is less work; with
  // dropout of its probabilities it is not, and counts to the others.
  double attention_flops = 0, other_flops = 0;
  // FLOPs of the micro-batches of a step that have these sequences.
  double flops_of(std::span<const TokenBatch> sequences, double share_of_step) const;

  int64_t peak() const { return memory.held_high_water; }  // what the run takes from the device, cached blocks included
};

// Of the rank of so many that needs the most. Throws if they cannot share the step.
Plan make_plan(const TrainConfig& config, const TrainingProblem& problem, int ranks = 1);

// "41.2 % of the tokens"
std::string counted_text(double share);

// The plan as a table.
std::string plan_text(const Plan& plan, const MemoryInfo& device);

// Throws out_of_memory with the memory needed, the memory free, and settings that would reduce it.
void check_fits(const Plan& plan, const TrainConfig& config, const MemoryInfo& device);

std::string parameters_text(const Plan& plan);  // trained ones: "1.2M", "98k of 1.3M"
std::string bytes_text(double bytes);           // "12.3 MiB"

}  // namespace weft
