// What a run will take, before anything is allocated: the real step, run on the counting device.
#pragma once

#include <string>

#include "weft/base/cost.h"
#include "weft/device/device.h"
#include "weft/train/setup.h"

namespace weft {

struct Plan {
  PoolStats memory;        // high water of the pool, by use and in all
  Cost step;               // of one optimizer step
  int64_t parameters = 0;  // trained
  int64_t kept = 0;        // parameters that stay as they are: a model's below its adapters
  int64_t tokens = 0;      // read by one step

  int64_t peak() const { return memory.held_high_water; }  // what the run takes from the device, cached blocks and all
};

Plan make_plan(const TrainConfig& config, const TrainingProblem& problem);

// A table for people.
std::string plan_text(const Plan& plan, const MemoryInfo& device);

// Throws out_of_memory saying what is needed, what there is, and what to shrink.
void check_fits(const Plan& plan, const TrainConfig& config, const MemoryInfo& device);

std::string parameters_text(const Plan& plan);  // that are trained: "1.2M", "98k of 1.3M"
std::string bytes_text(double bytes);           // "12.3 MiB"

}  // namespace weft
