#include "bench/shared_train.h"

#include <algorithm>
#include <cmath>

#include "bench/timing.h"
#include "bench/training.h"

namespace weft::bench {

SharedTrainResult measure_shared_training(const TrainShape& shape, Device& device, Communicator& ranks, Sharding sharding) {
  constexpr double kSeconds = 3;  // timed, at least
  constexpr int kLeast = 5;       // steps
  SharedTrainResult result{.dtype = std::string(name(shape.dtype)), .tokens = shape.sequences * shape.tokens, .waited = {}};
  Training training(shape, device, false, ranks, sharding);
  training.step();  // counts additions: none of its communication is hidden
  training.step();
  // Rank 0 decides how many, for all take the same number of steps.
  const double one = ranks.all_gather_values(time_of([&] { training.step(); }))[0];
  result.steps = std::max(kLeast, int(std::ceil(kSeconds / one)));
  const double before = ranks.seconds_waited();
  std::vector<double> times;
  for (int i = 0; i < result.steps; ++i) times.push_back(time_of([&] { training.step(); }));
  result.waited = ranks.all_gather_values((ranks.seconds_waited() - before) / result.steps);
  result.seconds = ranks.all_gather_values(median(times))[0];
  return result;
}

}  // namespace weft::bench
