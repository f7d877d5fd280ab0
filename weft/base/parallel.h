// Tasks on several threads: the one interface to the threads of weft/base/workers.h.
//
// A kernel cuts its work into tasks whose boundaries depend on shapes alone, never on the number of threads; each
// task writes its own outputs. So any thread may run any task and the result has the same bits.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace weft {

// Cores this process may use: its affinity mask, its cgroup's CPU quota, and OMP_NUM_THREADS, whichever is least.
int available_threads();

namespace detail {
void run_tasks(int64_t tasks, int threads, void (*body)(void*, int64_t), void* context);
}

// Calls body(task) for task in [0, tasks), on at most `threads` threads. With one thread or one task it runs on the
// caller's thread: no start-up cost. Where tasks throw, the exception of the first of them reaches the caller. A forked child
// has threads of its own. A caller that has threads of its own is not oversubscribed:
//   inside another parallel region it runs on the caller's thread (ours, and the caller's OpenMP where the program links
//   an OpenMP runtime; not on macOS);
//   calls from several threads at once share one budget, the cores of the process (or `threads`, if that is more): the
//   first takes what it asks for, the others what is left, at least their own thread.
template <class F>
void parallel_for(int64_t tasks, int threads, F&& body) {
  using Body = std::remove_reference_t<F>;
  detail::run_tasks(
      tasks, threads, [](void* context, int64_t task) { (*static_cast<Body*>(context))(task); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

// While one lives, parallel_for on this thread does nothing: what is left of a kernel is what it does around its tasks,
// its workspace above all (weft/backends/counting).
class TasksLeftOut {
 public:
  TasksLeftOut();
  ~TasksLeftOut();
  TasksLeftOut(const TasksLeftOut&) = delete;
  TasksLeftOut& operator=(const TasksLeftOut&) = delete;

 private:
  const bool before_;
};

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace weft
