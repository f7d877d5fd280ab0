// The threads behind parallel_for: started when first needed, kept until the process ends.
//
// No thread is ever waited for, only tasks. The caller publishes its tasks and works on them itself; workers claim tasks
// one at a time and take whatever is left. A worker that the system has not scheduled costs nothing, one that it preempts
// inside a task costs the caller that task alone. Whoever has nothing to do spins briefly, then sleeps: cores are shared
// with other processes.
#pragma once

#include <cstdint>

namespace weft::detail {

constexpr int64_t kMostTasks = int64_t(1) << 31;

// body(context, task) for task in [0, count), count <= kMostTasks.
struct Job {
  int64_t count;
  void (*body)(void* context, int64_t task);
  void* context;
};

// Runs a job on the caller's thread and at most threads - 1 workers; the process never has more than most_workers of them.
// All tasks run even if some throw; the exception of the first of those tasks goes to the caller.
void run_with_workers(const Job& job, int threads, int most_workers);

// Whether the calling thread is inside a task: then it has no workers of its own.
bool inside_task();

}  // namespace weft::detail
