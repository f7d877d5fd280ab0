// Looks on while a run reads, computes and writes: shows how far long work has come, and ends it once a stop is asked for.
#pragma once

#include <atomic>

#include "weft/train/work_line.h"

namespace weft {

class RunMonitor : public WorkLine {
 public:
  // `stop` may be null: nobody will ask.
  RunMonitor(LiveLine& line, const std::atomic<bool>* stop) : WorkLine(line), stop_(stop) {}

  void progress(const Work& work) override {
    WorkLine::progress(work);
    check_stop();
  }
  void part() override {
    WorkLine::part();
    check_stop();
  }
  // Throws Stopped where a stop was asked for.
  void check_stop() const {
    if (stop_ && finishing_ == 0 && stop_->load(std::memory_order_relaxed)) throw Stopped();
  }

  // While one lives no stop is raised: what half done would be lost is finished first.
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
