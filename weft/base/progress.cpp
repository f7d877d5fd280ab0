#include "weft/base/progress.h"

namespace weft {
namespace {
thread_local Listening* innermost = nullptr;
}

Listening::Listening(ProgressListener& listener) : listener_(listener), outer_(innermost) { innermost = this; }
Listening::~Listening() { innermost = outer_; }

void report_progress(const Work& work) {
  for (Listening* l = innermost; l; l = l->outer_) l->listener_.progress(work);
}

void report_part() {
  for (Listening* l = innermost; l; l = l->outer_) l->listener_.part();
}

}  // namespace weft
