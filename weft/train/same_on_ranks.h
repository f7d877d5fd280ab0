// Facts that all ranks must share, compared before the first step. Not installed.
#pragma once

#include <string>
#include <vector>

#include "weft/comm/communicator.h"
#include "weft/models/model.h"
#include "weft/train/config.h"

namespace weft {

struct Fact {
  std::string name, value;
};

// Throws AgreedError on all ranks if a fact differs: the first one, with both values and their ranks. One process has nothing to compare.
void check_same(Communicator& communicator, const std::vector<Fact>& facts);

// The build of this process and of the libraries that its results depend on.
std::vector<Fact> build_facts();

// Every setting that all ranks must share: all but names of files, which may differ from host to host (their contents are compared
// elsewhere), and the device and threads of a rank.
std::vector<Fact> setting_facts(const TrainConfig& config);

// A checksum of all weights of a model.
std::string weights_checksum(const Model& model);

}  // namespace weft
