// Work repeated with the same shapes in the same memory, such as a training step: run the first time, then captured and
// replayed if the stream can. Values that change are in device memory and are written before.
#pragma once

#include <functional>
#include <memory>

#include "weft/device/stream.h"

namespace weft {

class Replayed {
 public:
  // True if `work` was called, false if its launches were replayed.
  bool run(Stream& stream, const std::function<void()>& work);
  void forget();  // before work with other shapes or other memory

 private:
  bool ran_ = false;
  std::unique_ptr<Graph> graph_;
};

}  // namespace weft
