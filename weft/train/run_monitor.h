// Listens to the progress of a run: shows it, and ends the work by throwing Stopped once a stop is requested.
#pragma once

#include <atomic>

#include "weft/train/work_line.h"

namespace weft {

class RunMonitor : public WorkLine {
 public:
  // `stop` may be null.
  RunMonitor(LiveLine& line, const std::atomic<bool>* stop) : WorkLine(line), stop_(stop) {}

  void progress(const Work& work) override {
    WorkLine::progress(work);
    check_stop();
  }
  void part() override {
    WorkLine::part();
    check_stop();
  }
  // Throws Stopped if a stop was requested.
  void check_stop() const {
    if (stop_requested()) throw Stopped();
  }
  bool stop_requested() const { return stop_ && finishing_ == 0 && stop_->load(std::memory_order_relaxed); }

  // While one lives no stop is raised, so that work which must not be left half done is finished first.
  class Finishing {
   public:
    explicit Finishing(RunMonitor& monitor) : monitor_(monitor) { ++monitor_.finishing_; }
    ~Finishing() { --monitor_.finishing_; }
    Finishing(const Finishing&) = delete;
    Finishing& operator=(const Finishing&) = delete;

   private:
    RunMonitor& monitor_;
  };

 private:
  const std::atomic<bool>* stop_;
  int finishing_ = 0;
};

}  // namespace weft
