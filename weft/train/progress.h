// The progress of a run: on a terminal one line that is redrawn, in a file or a pipe plain lines.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "weft/train/history.h"
#include "weft/train/live_line.h"

namespace weft {

// "  120/1000 [████░░░░] loss 1.2345 (1.2712)  lr 3.00e-04  |g| 0.81  12.3k tok/s  41 % of peak  1:23 left": as much of it as
// fits into `columns`. First the bar is dropped, then the share of the peak, then the smoothed loss; learning rate and gradient norm
// are shortened before they are dropped; the loss stays. 0 columns: all but the bar.
// Of several ranks: "12.3k tok/s on 4 ranks", as long as there is room.
std::string progress_line(const StepRecord& record, int64_t steps, double smoothed_loss, double seconds_left, int columns, int ranks = 1);

class Progress {
 public:
  // `out` null: prints nothing. `every`: steps between two plain lines.
  Progress(std::FILE* out, int64_t steps, int64_t every, int ranks = 1);

  void set_steps(int64_t steps) { steps_ = steps; }  // of the run, known once its data is read
  void step(const StepRecord& record, double seconds_left);
  void note(const std::string& text);  // prints a permanent line
  void finish();                       // leaves the progress line on the screen

  double smoothed_loss() const { return smoothed_; }
  LiveLine& line() { return line_; }

 private:
  LiveLine line_;
  int64_t steps_, every_;
  int ranks_;
  double smoothed_ = 0, weight_ = 0;  // exponential mean over about fifty steps, without a bias at the start
};

std::string duration_text(double seconds);  // "0:07", "12:34", "1:02:03"
std::string count_text(double value);       // "950", "12.3k", "1.25M"

}  // namespace weft
