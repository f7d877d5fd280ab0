// The threads behind parallel_for: started on first use, kept until the process ends.
//
// The caller waits for tasks, never for threads. It publishes its tasks and runs them itself; workers claim tasks one at a time and take
// whatever is left. A worker that the system has not scheduled costs nothing; one that is preempted inside a task delays only that
// task. Idle threads spin briefly, then sleep: cores are shared with other processes.
#pragma once

#include <cstdint>

namespace weft::detail {

constexpr int64_t kMostTasks = int64_t(1) << 31;

// Calls body(context, task) for task in [0, count), count <= kMostTasks.
struct Job {
  int64_t count;
  void (*body)(void* context, int64_t task);
  void* context;
};

// Runs a job on the caller's thread and at most threads - 1 workers; the process never has more than most_workers workers. All tasks run
// even if some throw; the exception of the lowest of them is rethrown to the caller.
void run_with_workers(const Job& job, int threads, int most_workers);

// Whether the calling thread is inside a task: it then runs nested work alone.
bool inside_task();

}  // namespace weft::detail
