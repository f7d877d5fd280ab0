// Progress of long work, reported to the listeners of this thread, and the way a listener cancels that work.
//
//   struct Shown : ProgressListener { void progress(const Work& work) override { ... } };
//   const Listening listening(shown);  // until the end of the scope
//   load_model(...);                   // reports its progress
//
// Progress is reported on the thread that requested the work, never from inside a parallel region. A listener may throw Stopped: the work
// is unwound as if it had failed, and leaves no half-written file behind. Without a listener a report costs one branch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

namespace weft {

struct Work {
  std::string_view what;        // "tokenising"
  int64_t done = 0, total = 0;  // total 0: unknown
  bool bytes = false;           // the unit: bytes, or else items ("micro-batch 3 of 8")
};

class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  virtual void progress(const Work& work) = 0;
  // A small part of the work reported last is done, such as the launch of an op.
  virtual void part() {}
};

// While it lives, `listener` receives this thread's reports. Listeners nest: the inner one is called first, then the outer.
class Listening {
 public:
  explicit Listening(ProgressListener& listener);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  friend void report_progress(const Work& work);
  friend void report_part();
  ProgressListener& listener_;
  Listening* const outer_;
};

void report_progress(const Work& work);
void report_part();

// A callback that reports how many of `total` bytes are done.
inline auto report_bytes(std::string_view what, size_t total) {
  return [=](int64_t done) { report_progress({.what = what, .done = done, .total = int64_t(total), .bytes = true}); };
}

// Thrown by a listener to stop work on request. It is not an error.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped on request"; }
};

}  // namespace weft
