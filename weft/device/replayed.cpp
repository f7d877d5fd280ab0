#include "weft/device/replayed.h"

namespace weft {

bool Replayed::run(Stream& stream, const std::function<void()>& work) {
  const bool replays = graph_ != nullptr;
  if (!stream.captures() || !ran_) {
    work();
    ran_ = true;
    return true;
  }
  if (!replays) graph_ = stream.capture(work);
  graph_->replay();
  return !replays;
}

void Replayed::forget() {
  graph_.reset();
  ran_ = false;
}

}  // namespace weft
