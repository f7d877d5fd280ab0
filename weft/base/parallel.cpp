#include "weft/base/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#ifdef __linux__
#include <sched.h>
#endif

namespace weft {
namespace {

// cgroup v2: "max 100000" or "150000 100000"; v1: two files. No file, no limit.
double cgroup_cpus() {
  std::string quota;
  double period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2 >> quota >> period)
    return quota == "max" || period <= 0 ? 0 : std::atof(quota.c_str()) / period;
  double v1_quota = 0;
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (quota_file >> v1_quota && period_file >> period && v1_quota > 0 && period > 0) return v1_quota / period;
  return 0;
}

int affinity_cpus() {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return int(std::thread::hardware_concurrency());
}

// The threads that parallel regions of this process run on, callers included. A region takes what is left of its budget
// and the caller's own thread in any case.
class Share {
 public:
  Share(int wanted, int budget) {
    int running = running_.load(std::memory_order_relaxed);
    do granted_ = std::clamp(budget - running, 1, wanted);
    while (!running_.compare_exchange_weak(running, running + granted_, std::memory_order_relaxed));
  }
  ~Share() { running_.fetch_sub(granted_, std::memory_order_relaxed); }
  Share(const Share&) = delete;
  Share& operator=(const Share&) = delete;
  int granted() const { return granted_; }

 private:
  static inline std::atomic<int> running_ = 0;
  int granted_;
};

thread_local bool tasks_left_out = false;

void run_serially(int64_t tasks, void (*body)(void*, int64_t), void* context) {
  for (int64_t task = 0; task < tasks; ++task) body(context, task);
}

// Tasks in as many stretches as there are threads, in order. A thread begins with its own and then takes what others have
// left: kernels that follow each other find rows in the caches of the core that wrote them.
class Stretches {
 public:
  Stretches(int64_t tasks, int threads) : tasks_(tasks), count_(std::min(threads, kMost)) {
    for (int i = 0; i < count_; ++i) next_[i].task.store(first(i), std::memory_order_relaxed);
  }
  void run(int thread, void (*body)(void*, int64_t), void* context) {
    for (int k = 0; k < count_; ++k) {
      const int stretch = (thread + k) % count_;
      for (int64_t task; (task = next_[stretch].task.fetch_add(1, std::memory_order_relaxed)) < first(stretch + 1);) body(context, task);
    }
  }

 private:
  static constexpr int kMost = 64;  // threads beyond share
  struct alignas(64) Next {
    std::atomic<int64_t> task;
  };
  int64_t first(int stretch) const { return tasks_ * stretch / count_; }

  const int64_t tasks_;
  const int count_;
  Next next_[kMost];
};

}  // namespace

int available_threads() {
  int threads = std::max(1, affinity_cpus());
  if (const double quota = cgroup_cpus(); quota > 0) threads = std::min(threads, std::max(1, int(std::ceil(quota))));
  if (const char* wanted = std::getenv("OMP_NUM_THREADS"); wanted && std::atoi(wanted) > 0)
    threads = std::min(threads, std::atoi(wanted));
  return threads;
}

TasksLeftOut::TasksLeftOut() : before_(std::exchange(tasks_left_out, true)) {}
TasksLeftOut::~TasksLeftOut() { tasks_left_out = before_; }

void detail::run_tasks(int64_t tasks, int threads, void (*body)(void*, int64_t), void* context) {
  if (tasks_left_out) [[unlikely]] return;
  const int wanted = int(std::min<int64_t>(tasks, threads));
  if (wanted <= 1 || omp_in_parallel()) return run_serially(tasks, body, context);
  static const int cores = available_threads();
  const Share share(wanted, std::max(threads, cores));
  if (share.granted() == 1) return run_serially(tasks, body, context);
  Stretches stretches(tasks, share.granted());
#pragma omp parallel num_threads(share.granted())
  stretches.run(omp_get_thread_num(), body, context);
}

}  // namespace weft
