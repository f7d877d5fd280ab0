// The share of the device's peak FLOP/s that training steps reach.
//
// A peak measured while other processes used the cores is too low; a step above it shows that. The peak is then measured once more.
// If a step exceeds the second measurement too, the rest of the run reports no share.
#pragma once

#include <functional>
#include <string>
#include <utility>

namespace weft {

struct PeakFlops {
  double rate = 0;  // FLOP/s; 0: unknown
  std::string of;   // what was measured: "f32 multiply-adds"
};

class Utilisation {
 public:
  Utilisation() = default;  // without a peak
  explicit Utilisation(std::function<PeakFlops()> measure) : measure_(std::move(measure)), peak_(measure_()) {}

  // The share of a step, at most 1; 0: unknown.
  double of_step(double flops, double seconds);

  const PeakFlops& peak() const { return peak_; }

 private:
  std::function<PeakFlops()> measure_;  // empty after the second measurement
  PeakFlops peak_;
};

}  // namespace weft
