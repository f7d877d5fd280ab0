// Shows the progress of a model's work on stderr until the first token.
#pragma once

#include "weft/device/launch_progress.h"
#include "weft/train/work_line.h"

namespace weft::cli {

struct Waiting {
  explicit Waiting(Device& device) : launches(device.stream()) {}
  ShownProgress progress;
  LaunchProgress launches;
};

}  // namespace weft::cli
