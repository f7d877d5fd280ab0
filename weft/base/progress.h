// How far long work has come, for whoever listens on this thread, and how a listener ends that work.
//
//   struct Shown : ProgressListener { void progress(const Work& work) override { ... } };
//   const Listening listening(shown);  // until the end of the scope
//   load_model(...);                   // reports as it goes
//
// Work is reported by the thread that asked for it, never from inside a parallel region. A listener may throw Stopped: the
// work is unwound as if it had failed, and leaves no half-written file behind. Nobody listens: a report costs one branch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

namespace weft {

struct Work {
  std::string_view what;        // "tokenising"
  int64_t done = 0, total = 0;  // total 0: not known
  bool bytes = false;           // what is counted: bytes, or else things to name one by one ("micro-batch 3 of 8")
};

class ProgressListener {
 public:
  virtual ~ProgressListener() = default;
  virtual void progress(const Work& work) = 0;
  // A small part of the work reported last was done, such as the launch of an op.
  virtual void part() {}
};

// While it lives, `listener` is told what this thread reports. Listeners nest: the inner one is told first, then the outer.
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

// For what tells how many of `total` bytes are done.
inline auto report_bytes(std::string_view what, size_t total) {
  return [=](int64_t done) { report_progress({.what = what, .done = done, .total = int64_t(total), .bytes = true}); };
}

// Thrown by a listener to end work that somebody asked to stop. No error: nothing went wrong.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped on request"; }
};

}  // namespace weft
