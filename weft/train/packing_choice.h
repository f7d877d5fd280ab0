// The packing of a run that leaves it open. Not installed.
#pragma once

#include <string>

#include "weft/train/setup.h"

namespace weft {

// Sets config.packing, if it is empty and the data is not sums, to documents; to concatenate (sft: none), with a notice, if `device`
// has no attention inside documents for this model.
void choose_packing(TrainConfig& config, const std::string& device, const Notice& notice);

}  // namespace weft
