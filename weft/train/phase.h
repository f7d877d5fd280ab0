// A part of a run whose tensors have other sizes than a training step's: an evaluation, samples, the export. Blocks that the pool
// has cached are given back before and after it, so that the run holds what its largest phase needs and not the sum of all.
#pragma once

#include "weft/device/device.h"

namespace weft {

class Phase {
 public:
  explicit Phase(Device& device) : pool_(device.pool()) { pool_.trim(); }
  ~Phase() { pool_.trim(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  Pool& pool_;
};

}  // namespace weft
