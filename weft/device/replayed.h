// Work that is done again and again with the same shapes in the same memory, such as a training step: run at first, then
// captured and replayed where the stream can. What changes from time to time lies in device memory and is written before.
#pragma once

#include <functional>
#include <memory>

#include "weft/device/stream.h"

namespace weft {

class Replayed {
 public:
  // True where `work` itself was called, false where its launches were replayed without it.
  bool run(Stream& stream, const std::function<void()>& work);
  void forget();  // the next work has other shapes or other memory

 private:
  bool ran_ = false;
  std::unique_ptr<Graph> graph_;
};

}  // namespace weft
