#include "weft/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "weft/base/workers.h"

#ifdef __linux__
#include <sched.h>
#endif

#ifdef __ELF__
extern "C" int omp_in_parallel() __attribute__((weak));  // null unless the program itself links an OpenMP runtime
#endif

namespace weft {
namespace {

bool inside_openmp() {
#ifdef __ELF__
  return omp_in_parallel && omp_in_parallel();
#else
  return false;
#endif
}

// Parses the CPU quota. cgroup v2: "max 100000" or "150000 100000"; v1: two files. No file: no limit.
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

// Threads in use by parallel regions of this process, callers included. A region takes what is left of its budget, and always the
// caller's own thread.
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

}  // namespace

int available_threads() {
  int threads = std::max(1, affinity_cpus());
  if (const double quota = cgroup_cpus(); quota > 0) threads = std::min(threads, std::max(1, int(std::ceil(quota))));
  if (const char* wanted = std::getenv("OMP_NUM_THREADS"); wanted && std::atoi(wanted) > 0) threads = std::min(threads, std::atoi(wanted));
  return threads;
}

TasksLeftOut::TasksLeftOut() : before_(std::exchange(tasks_left_out, true)) {}
TasksLeftOut::~TasksLeftOut() { tasks_left_out = before_; }

void detail::run_tasks(int64_t tasks, int threads, void (*body)(void*, int64_t), void* context) {
  if (tasks_left_out) [[unlikely]]
    return;
  const int wanted = int(std::min<int64_t>(tasks, threads));
  if (wanted <= 1 || tasks > kMostTasks || inside_task() || inside_openmp()) return run_serially(tasks, body, context);
  static const int cores = available_threads();
  const int budget = std::max(threads, cores);
  const Share share(wanted, budget);
  if (share.granted() == 1) return run_serially(tasks, body, context);
  run_with_workers({tasks, body, context}, share.granted(), budget - 1);
}

}  // namespace weft
