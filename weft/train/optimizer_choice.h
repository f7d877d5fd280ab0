// The optimizers that a run can name: "adamw", "sgd", "lion", "muon". Not installed.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "weft/train/config.h"
#include "weft/train/optimizer.h"

namespace weft {

// Throws for an unknown name, listing those that exist.
void check_optimizer_name(std::string_view name);

// The parameters that this optimizer must own as a whole.
std::vector<bool> whole_parameters(std::string_view optimizer, const std::vector<Parameter>& parameters);

// The optimizer that the config names, with the config's options. `owned`: a range of each parameter; empty: all.
std::unique_ptr<Optimizer> make_optimizer(const TrainConfig& config, std::vector<Parameter> parameters, std::vector<Range> owned = {});

}  // namespace weft
