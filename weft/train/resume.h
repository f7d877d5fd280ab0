// Settings that a resumed run must share with the run it continues. Not installed.
#pragma once

#include <string>

#include "weft/train/config.h"
#include "weft/train/setup.h"

namespace weft {

// Throws when a setting differs that a run keeps (Resume::fixed in the table of settings); prints the changes of others
// (Resume::reported). `where` names the checkpoint.
void check_resumable(TrainConfig now, TrainConfig before, const std::string& where, const Notice& notice);

// A checksum of the weights below LoRA adapters, which no checkpoint holds; empty for a run that trains all weights.
std::string base_checksum(const TrainConfig& config);

}  // namespace weft
