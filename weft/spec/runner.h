// Runs cases on a device and compares with the truth.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/spec/registry.h"

namespace weft::spec {

enum class Status { passed, failed, skipped };
std::string_view name(Status status);

struct Outcome {
  std::string name;  // "rms_norm.backward/cpu/bf16/3x257"
  std::string op;
  std::string dtype;
  Status status = Status::passed;
  double error = 0;  // where error over bound is worst
  double bound = 0;
  std::string message;  // of a failure or a skip
  std::string digest;   // of the output bytes: equal bits, equal digest
  double ulps = 0;      // promised (Case::ulps); error / bound * ulps is the measured error
};

// Conformance of one case on `device` (opened checked: poisoned outputs, guard bytes). Also: inputs and padding stay
// untouched; a second run gives the same bits; so does a replay of the launches, where the device captures, and a run on each
// of `others` (the same hardware with other thread counts).
Outcome run_case(const Case& c, const std::shared_ptr<Device>& device, const std::vector<std::shared_ptr<Device>>& others);

// The reference itself, against finite differences of the case's loss in float64. Needs no device.
Outcome run_gradient_check(const Case& c);

Outcome run_rejection(const Rejection& rejection, const std::shared_ptr<Device>& device);

// A case for every entry of every golden file found in `folder`; throws when a file is missing or damaged.
std::vector<Case> golden_cases(const Registry& registry, const std::string& folder);

// The operands of a problem on a device, as run_case lays them out.
Bound upload(const Problem& problem, const Truth& truth, Device& device);

}  // namespace weft::spec
