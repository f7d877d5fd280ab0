// A phase of a run whose tensors have other sizes than those of a training step: an evaluation, samples, the export. The pool's cached
// blocks are freed before and after it, so that the run holds the memory of its largest phase and not the sum of all.
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
