// Reports each launch on a stream as progress while it lives (weft/base/progress.h), so that work can be stopped between two
// ops. It leaves streams that capture alone: a watched stream replays nothing, and there launches run ahead of the device
// anyway.
#pragma once

#include "weft/base/progress.h"
#include "weft/device/stream.h"

namespace weft {

class LaunchProgress : public LaunchWatch {
 public:
  explicit LaunchProgress(Stream& stream) : stream_(stream), watches_(!stream.watched() && !stream.captures()) {
    if (watches_) stream_.set_watch(this);
  }
  ~LaunchProgress() override {
    if (watches_) stream_.set_watch(nullptr);
  }
  LaunchProgress(const LaunchProgress&) = delete;
  LaunchProgress& operator=(const LaunchProgress&) = delete;

  void before(const char*) override { report_part(); }
  void after() override {}

 private:
  Stream& stream_;
  const bool watches_;
};

}  // namespace weft
