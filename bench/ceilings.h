// Ceilings of the machine, measured in the same run as the ops that are compared with them.
#pragma once

#include <memory>
#include <string_view>

#include "bench/timing.h"
#include "weft/device/device.h"

namespace weft::bench {

enum class Ceiling {
  fma,         // f32 FLOP/s, multiply-adds in registers on all threads
  bf16_dot,    // FLOP/s of bf16 dot products into f32, in registers
  exp,         // our own vector exponential, in registers, elements/s
  copy,        // bytes/s read + written, with plain stores, over a working set of so many bytes
  triad,       // bytes/s of a = b + s c, the same way
  read,        // bytes/s read, from huge pages
  read_small,  // bytes/s read, from 4 KiB pages
};
std::string_view name(Ceiling ceiling);  // as in the JSON report: "fma_gflops", "copy_gbps", ...

class Ceilings {
 public:
  virtual ~Ceilings() = default;

  // Measures now, for about a tenth of a second: units of work per second, 0 if the machine lacks the feature. `bytes` is the size of the
  // working set, for ceilings that have one.
  virtual double measure(Ceiling ceiling, double bytes) = 0;

  // The same for arithmetic, in bursts too short to be preempted: accurate even while other processes share the cores.
  virtual double undisturbed(Ceiling ceiling) { return measure(ceiling, 0); }

  double fma() { return measure(Ceiling::fma, 0); }
  double copy(double bytes) { return measure(Ceiling::copy, bytes); }
  double triad(double bytes) { return measure(Ceiling::triad, bytes); }
};

std::unique_ptr<Ceilings> ceilings_of(Device& device, int threads);

}  // namespace weft::bench
