// Looking on while something is computed: every output that an op records for its gradient, and every gradient that a rule
// gives. Costs nothing while nobody looks. For finding out where a NaN began (weft/train/capture.h).
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

// While it lives, `look` is called for all that this thread computes. They do not nest.
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

bool watched();               // whether anybody looks
void show(const Seen& seen);  // to whoever does

}  // namespace weft
