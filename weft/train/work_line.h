// Draws the progress of long work (weft/base/progress.h) on the live line of a terminal: from two seconds after the work
// began, ten times a second at most, and no more once it is done.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <string>

#include "weft/base/progress.h"
#include "weft/train/live_line.h"

namespace weft {

// "micro-batch 3 of 8 [████░░░░░░]  34 %  0:12 left", as much of it as fits into `columns`. `inside`: the share of the next
// piece of work that is done, beyond work.done. Where the share is not known, the time taken so far stands at the end.
std::string work_text(const Work& work, double inside, double seconds, int columns);

class WorkLine : public ProgressListener {
 public:
  explicit WorkLine(LiveLine& line) : line_(line) {}
  ~WorkLine() override { line_.uncover(); }

  void progress(const Work& work) override;
  void part() override;

  // What the work belongs to: "step 12 of 1000". Empty: it stands for itself.
  void set_title(std::string title) { title_ = std::move(title); }
  void hide() { line_.uncover(); }  // before something else is printed; it comes back
  void end();                       // what comes next is new work

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  LiveLine& line_;
  std::string title_, what_;
  Work work_;
  int64_t parts_ = 0;                                         // since the last report
  std::map<std::string, int64_t, std::less<>> parts_of_one_;  // of the last whole piece of each kind of work
  Clock::time_point began_, drawn_;
};

// The two together on the standard error output, until the end of the scope.
class ShownProgress {
 public:
  void hide() { work_.hide(); }  // before something else is printed

 private:
  LiveLine line_{stderr};
  WorkLine work_{line_};
  Listening listening_{work_};
};

}  // namespace weft
