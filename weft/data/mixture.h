// Datasets made of datasets: a weighted mixture, and training data with validation data of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "weft/data/dataset.h"

namespace weft {

struct MixturePart {
  std::unique_ptr<Dataset> data;
  double weight = 1;
};

// An epoch has as many sequences as all parts together. A part's share of them is its weight's share of all weights, rounded so that
// the sum is exact; a part with a larger share than it has sequences repeats some, in another order each time, one with a smaller share
// is continued in the next epoch. Sequences of all parts are shuffled, in another order each epoch; which sequence is at a position
// depends on the position and the seed alone. The validation sequences are those of all parts, in turns by their number.
std::unique_ptr<Dataset> mixture(std::vector<MixturePart> parts, uint64_t seed);

// The training sequences of one and, as validation, all sequences of the other in the order of its first epoch.
std::unique_ptr<Dataset> with_validation(std::unique_ptr<Dataset> training, std::unique_ptr<Dataset> validation);

}  // namespace weft
