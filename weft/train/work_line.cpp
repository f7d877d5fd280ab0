#include "weft/train/work_line.h"

#include <algorithm>

#include "weft/base/check.h"
#include "weft/train/progress.h"

namespace weft {

std::string work_text(const Work& work, double inside, double seconds, int columns) {
  const double share = work.total > 0 ? std::clamp((double(work.done) + inside) / double(work.total), 0.0, 1.0) : 0;
  const std::string which = work.bytes || work.total == 0 ? "" : join(" ", std::min(work.done + 1, work.total), " of ", work.total);
  const std::string head = join(work.what, which);
  const std::string percent = share > 0 ? join("  ", int(100 * share), " %") : "";
  const std::string time =
      share > 0 ? join("  ", duration_text(seconds * (1 - share) / share), " left") : join("  ", duration_text(seconds));
  constexpr int kLeastBar = 6, kMostBar = 30;
  const int room = columns - 1 - int(head.size() + percent.size() + time.size()) - 3;  // a space, two brackets; the last column stays free
  const std::string drawn = share > 0 && room >= kLeastBar ? " " + bar(share, std::min(room, kMostBar)) : "";
  for (const std::string& text : {head + drawn + percent + time, head + percent + time, head + percent, head})
    if (room >= kLeastBar || int(text.size()) < columns) return text;
  return head.substr(0, size_t(std::max(1, columns - 1)));
}

void WorkLine::progress(const Work& work) {
  if (!line_.terminal()) return;
  const bool continues = work.what == what_ && work.done >= work_.done && work.total == work_.total;
  if (continues && work.done == work_.done + 1) parts_of_one_[what_] = parts_;
  if (!continues) {
    line_.uncover();
    what_ = work.what;
    began_ = Clock::now();
  }
  work_ = work;
  work_.what = what_;
  parts_ = 0;
  work.total > 0 && work.done >= work.total ? end() : draw();
}

void WorkLine::part() {
  if (!line_.terminal() || what_.empty()) return;
  ++parts_;
  draw();
}

void WorkLine::draw() {
  using namespace std::chrono_literals;
  const auto now = Clock::now();
  if (now - began_ < 2s || now - drawn_ < 100ms) return;
  drawn_ = now;
  const auto known = parts_of_one_.find(what_);
  const double inside = known == parts_of_one_.end() || known->second == 0 ? 0 : std::min(0.99, double(parts_) / double(known->second));
  Work titled = work_;
  const std::string what = title_.empty() ? what_ : title_ + ": " + what_;
  titled.what = what;
  line_.cover(work_text(titled, inside, std::chrono::duration<double>(now - began_).count(), line_.columns()));
}

void WorkLine::end() {
  line_.uncover();
  what_.clear();
}

}  // namespace weft
