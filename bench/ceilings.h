// What the machine can do at most, measured in the same run as the ops that are compared with it.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "weft/device/device.h"

namespace weft::bench {

class Ceilings {
 public:
  virtual ~Ceilings() = default;
  virtual double fma() = 0;                 // f32 FLOP/s, register-only multiply-adds on all threads
  virtual double copy(double bytes) = 0;    // bytes/s read + written, plain stores, over a working set of this size
  virtual double triad(double bytes) = 0;   // bytes/s of a = b + s c
};

// Throws `unsupported` for a device nobody has written ceilings for.
std::unique_ptr<Ceilings> ceilings_of(Device& device, int threads);

// The median of the times of `body`, in seconds, after warm-up: at least `least` runs and `seconds` in all.
double median_time(const std::function<void()>& body, double seconds = 0.25, int least = 5);

// The same of two bodies taken in turns, so that what disturbs one disturbs the other.
std::pair<double, double> median_times(const std::function<void()>& first, const std::function<void()>& second, double seconds = 0.5, int least = 5);

}  // namespace weft::bench
