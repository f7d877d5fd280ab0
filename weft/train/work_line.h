// Shows the progress of long work (weft/base/progress.h) on the live line of a terminal: from two seconds after its start until its
// end, at most ten times a second.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "weft/base/progress.h"
#include "weft/train/live_line.h"

namespace weft {

// "micro-batch 3 of 8 [████░░░░░░]  34 %  0:12 left", as much of it as fits into `columns`. `inside`: the finished share
// of the current item, beyond work.done. If no share is known, the line ends with the time taken so far.
std::string work_text(const Work& work, double inside, double seconds, int columns);

class WorkLine : public ProgressListener {
 public:
  explicit WorkLine(LiveLine& line) : line_(line) {}
  ~WorkLine() override { line_.uncover(); }

  void progress(const Work& work) override;
  void part() override;

  // A prefix for the work, such as "step 12 of 1000"; may be empty.
  void set_title(std::string title) { title_ = std::move(title); }
  void hide() { line_.uncover(); }  // before other output; the next report shows it again
  void end();                       // the work is over

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  LiveLine& line_;
  std::string title_, what_;
  Work work_;
  int64_t parts_ = 0;                                         // since the last report
  std::map<std::string, int64_t, std::less<>> parts_of_one_;  // of the last whole item of each kind of work
  Clock::time_point began_, drawn_;
};

// Shows progress on stderr until the end of the scope.
class ShownProgress {
 public:
  void hide() { work_.hide(); }  // before other output

 private:
  LiveLine line_{stderr};
  WorkLine work_{line_};
  Listening listening_{work_};
};

}  // namespace weft
