// Runs tasks on several threads: the one interface to the threads of weft/base/workers.h.
//
// A kernel splits its work into tasks whose boundaries depend on shapes alone, never on the number of threads; each task writes its own
// outputs. So any thread may run any task and the result is bitwise the same.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace weft {

// Number of cores this process may use: the least of its affinity mask, its cgroup's CPU quota, and OMP_NUM_THREADS.
int available_threads();

namespace detail {
void run_tasks(int64_t tasks, int threads, void (*body)(void*, int64_t), void* context);
}

// Calls body(task) for task in [0, tasks), on at most `threads` threads. With one thread or one task it runs on the caller's thread
// without start-up cost. If tasks throw, the exception of the lowest one is rethrown to the caller. A forked child starts its own threads.
// A caller with its own threads is not oversubscribed:
//   inside another parallel region (ours, or the caller's OpenMP if the program links an OpenMP runtime; not on macOS) it runs on the
//   caller's thread;
//   concurrent calls from several threads share one budget, the cores of the process (or `threads`, if that is more): the first takes
//   what it requests, the others what is left, at least their own thread.
template <class F>
void parallel_for(int64_t tasks, int threads, F&& body) {
  using Body = std::remove_reference_t<F>;
  detail::run_tasks(
      tasks, threads, [](void* context, int64_t task) { (*static_cast<Body*>(context))(task); },
      const_cast<void*>(static_cast<const void*>(std::addressof(body))));
}

// While one lives, parallel_for on this thread does nothing, so that only what a kernel does around its tasks runs, mainly allocating
// its workspace (weft/backends/counting).
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
