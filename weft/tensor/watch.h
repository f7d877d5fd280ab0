// Observing a computation: every output that an op records for its gradient, and every gradient that a rule returns. Costs
// nothing without an observer. Used to find where a NaN began (weft/train/capture.h).
#pragma once

#include <functional>

#include "weft/tensor/tensor.h"

namespace weft {

struct Seen {
  const char* op;
  bool backward;  // a gradient: `which` counts the op's inputs; else an output
  int which;
  const Tensor& tensor;
};

// Calls `look` for everything that this thread computes while it lives. Watches do not nest.
class Watch {
 public:
  explicit Watch(std::function<void(const Seen&)> look);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  friend void show(const Seen& seen);
  std::function<void(const Seen&)> look_;
};

bool watched();               // whether this thread has a Watch
void show(const Seen& seen);  // calls it

}  // namespace weft
