// The share of the device's peak that training steps reach.
//
// A peak measured while other processes had the cores is too low, and a step above it proves that. Then the peak is measured
// again; where a step passes the second measurement as well, no share is known for the rest of the run.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace weft {

struct PeakFlops {
  double rate = 0;  // FLOP/s; 0: not known
  std::string of;   // what was measured: "f32 multiply-adds"
};

class Utilisation {
 public:
  Utilisation() = default;  // no peak is known
  explicit Utilisation(std::function<PeakFlops()> measure) : measure_(std::move(measure)), peak_(measure_()) {}

  // The share of a step, at most 1; 0: not known.
  double of_step(double flops, double seconds);

  const PeakFlops& peak() const { return peak_; }

 private:
  std::function<PeakFlops()> measure_;  // empty once it has been asked a second time
  PeakFlops peak_;
};

}  // namespace weft
