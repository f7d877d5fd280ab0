#include "weft/base/workers.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace weft::detail {
namespace {

using namespace std::chrono_literals;

constexpr int kMostThreads = 256;  // per region
constexpr int kMostWorkers = 1024;
constexpr int kRegions = 32;  // in progress at once; without a free one a caller runs its tasks alone

// Time a thread spins for the next event before it sleeps (measurements: docs/lab/threads.md).
constexpr auto kWorkerSpin = 50us;  // longer than the time between two ops of one step
constexpr auto kCallerSpin = 50us;

thread_local bool inside = false;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` takes no time on most cores
#endif
}

// Spins until done() is true or `limit` has passed; returns done().
template <class Done>
bool spin_until(std::chrono::nanoseconds limit, Done done) {
  constexpr int kPolls = 16;  // polls per reading of the clock
  const auto start = std::chrono::steady_clock::now();
  do {
    for (int i = 0; i < kPolls; ++i) {
      if (done()) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() - start < limit);
  return done();
}

// Keeps the exception of the lowest task that threw: the same one on any number of threads.
class Failure {
 public:
  void add(int64_t task, std::exception_ptr exception) {
    const std::lock_guard lock(mutex_);
    if (exception_ && task_ <= task) return;
    task_ = task;
    exception_ = std::move(exception);
  }
  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::mutex mutex_;
  int64_t task_ = 0;
  std::exception_ptr exception_;
};

// One job in progress. Its tasks are split into one contiguous range per thread; a thread starts with the range of its seat and then
// steals from others, so that successive kernels find rows in the caches of the core that wrote them.
//
// Regions are never destroyed. A worker that was preempted between two jobs may see the ranges of a later job: whatever it claims there
// is a task of that later job, and the job's fields are read only after a claim, while its caller waits.
class Region {
 public:
  bool acquire() { return !busy_.load(std::memory_order_relaxed) && !busy_.exchange(true, std::memory_order_acquire); }
  void release() { busy_.store(false, std::memory_order_release); }

  // Runs the caller's share: seat 0.
  void run(const Job& job, int threads, int most_workers);

  // Runs a worker's share, from the call to a seat until it has found no task for a while.
  void attend(int seat);

  // Resets the region in a forked child, which has no workers.
  void reset();

 private:
  struct alignas(64) TaskRange {
    std::atomic<uint64_t> range = 0;  // end << 32 | next
    std::atomic<bool> taken = false;  // a worker has this seat, or is waking up for it
  };

  void publish(int threads);
  void call_workers(int threads, int most_workers);
  void work(int seat);
  void run_range(TaskRange& tasks);
  void run_task(int64_t task);
  void wait();

  alignas(64) std::atomic<bool> busy_ = false;
  const Job* job_ = nullptr;
  Failure* failure_ = nullptr;
  alignas(64) std::atomic<uint32_t> published_ = 0;  // number of jobs so far; workers spin on it
  std::atomic<int> threads_ = 0;
  alignas(64) std::atomic<uint32_t> unfinished_ = 0;  // tasks
  TaskRange ranges_[kMostThreads];
};

// One worker thread. It sleeps on the word that holds its state.
class alignas(64) Worker {
 public:
  // Assigns the worker to a region if it sleeps.
  bool call(Region& region, int seat) {
    uint32_t expected = kAsleep;
    if (state_.load(std::memory_order_relaxed) != kAsleep || !state_.compare_exchange_strong(expected, kChosen)) return false;
    region_ = &region;
    seat_ = seat;
    state_.store(kCalled);
    state_.notify_one();
    return true;
  }
  // Starts the thread and assigns it to a region. False if the system cannot start another thread.
  bool start(Region& region, int seat) {
    region_ = &region;
    seat_ = seat;
    state_.store(kCalled);
    try {
      std::thread([this] { live(); }).detach();
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

 private:
  enum State : uint32_t { kAsleep, kChosen, kCalled };

  [[noreturn]] void live() {
    inside = true;
    for (;;) {
      for (uint32_t state; (state = state_.load(std::memory_order_acquire)) != kCalled;) state_.wait(state);
      region_->attend(seat_);
      state_.store(kAsleep, std::memory_order_release);
    }
  }

  std::atomic<uint32_t> state_ = kAsleep;
  Region* region_ = nullptr;
  int seat_ = 0;
};

// All of it is in static memory without destructors: threads that sleep at process exit still find it.
constinit Region regions[kRegions];
constinit Worker workers[kMostWorkers];
constinit std::atomic<int> started = 0;
constinit std::atomic<bool> starting = false;

void forget_workers() {
  for (Region& region : regions) region.reset();
  started = 0;
  starting = false;
}

// Starts one more worker, unless there are enough or another thread is starting one.
bool start_worker(Region& region, int seat, int most_workers) {
  if (started.load(std::memory_order_relaxed) >= std::min(most_workers, kMostWorkers) || starting.exchange(true, std::memory_order_acquire))
    return false;
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, forget_workers);
  const int index = started.load(std::memory_order_relaxed);
  const bool ok = index < std::min(most_workers, kMostWorkers) && workers[index].start(region, seat);
  if (ok) started.store(index + 1, std::memory_order_release);
  starting.store(false, std::memory_order_release);
  return ok;
}

void Region::run(const Job& job, int threads, int most_workers) {
  Failure failure;
  job_ = &job;
  failure_ = &failure;
  publish(threads);
  call_workers(threads, most_workers);
  inside = true;
  work(0);
  inside = false;
  wait();
  failure.rethrow();
}

// Publishes a job. Tasks may be claimed as soon as the first range is written, so everything else is written before it.
void Region::publish(int threads) {
  const int64_t tasks = job_->count;
  unfinished_.store(uint32_t(tasks), std::memory_order_relaxed);
  threads_.store(threads, std::memory_order_relaxed);
  for (int i = 0; i < threads; ++i) {
    const auto first = uint64_t(tasks * i / threads), end = uint64_t(tasks * (i + 1) / threads);
    ranges_[i].range.store(end << 32 | first, std::memory_order_release);
  }
  published_.fetch_add(1);
}

// Wakes workers. A worker that leaves its seat reads published_ afterwards, and this reads the seats after writing published_: at least
// one of the two sees the other.
void Region::call_workers(int threads, int most_workers) {
  int next = 0;
  for (int seat = 1; seat < threads; ++seat) {
    std::atomic<bool>& taken = ranges_[seat].taken;
    if (taken.load() || taken.exchange(true)) continue;
    const int count = started.load(std::memory_order_acquire);
    while (next < count && !workers[next].call(*this, seat)) ++next;
    if (next < count || start_worker(*this, seat, most_workers)) continue;
    taken.store(false);
    return;
  }
}

void Region::attend(int seat) {
  std::atomic<bool>& taken = ranges_[seat].taken;
  uint32_t seen;
  do {
    do {
      seen = published_.load(std::memory_order_acquire);
      work(seat);
    } while (spin_until(kWorkerSpin, [&] { return published_.load(std::memory_order_relaxed) != seen; }));
    taken.store(false);
  } while (published_.load() != seen && !taken.exchange(true));
}

void Region::work(int seat) {
  const int count = threads_.load(std::memory_order_relaxed);
  if (seat >= count) return;
  for (int i = 0; i < count; ++i) run_range(ranges_[(seat + i) % count]);
}

void Region::run_range(TaskRange& tasks) {
  uint32_t finished = 0;
  for (uint64_t range = tasks.range.load(std::memory_order_relaxed); uint32_t(range) < range >> 32;) {
    if (!tasks.range.compare_exchange_weak(range, range + 1, std::memory_order_acquire, std::memory_order_relaxed)) continue;
    run_task(int64_t(uint32_t(range)));
    ++finished;
    range = tasks.range.load(std::memory_order_relaxed);
  }
  if (finished > 0 && unfinished_.fetch_sub(finished, std::memory_order_acq_rel) == finished) unfinished_.notify_one();
}

void Region::run_task(int64_t task) {
  try {
    job_->body(job_->context, task);
  } catch (...) {
    failure_->add(task, std::current_exception());
  }
}

// Waits for the tasks that workers have claimed: no other task is left.
void Region::wait() {
  if (spin_until(kCallerSpin, [&] { return unfinished_.load(std::memory_order_acquire) == 0; })) return;
  for (uint32_t left; (left = unfinished_.load(std::memory_order_acquire)) != 0;) unfinished_.wait(left);
}

void Region::reset() {
  if (published_.load(std::memory_order_relaxed) == 0) return;
  for (TaskRange& tasks : ranges_) {
    tasks.range = 0;
    tasks.taken = false;
  }
  busy_ = false;
}

}  // namespace

void run_with_workers(const Job& job, int threads, int most_workers) {
  Region* region = std::find_if(regions, regions + kRegions, [](Region& r) { return r.acquire(); });
  if (region == regions + kRegions) {
    for (int64_t task = 0; task < job.count; ++task) job.body(job.context, task);
    return;
  }
  struct Release {
    Region& region;
    ~Release() { region.release(); }
  } release{*region};
  region->run(job, std::min(threads, kMostThreads), most_workers);
}

bool inside_task() { return inside; }

}  // namespace weft::detail
