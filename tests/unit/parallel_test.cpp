#include "weft/base/parallel.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weft {
namespace {

using std::chrono::milliseconds;

void expect_every_task_once(int64_t tasks, int threads) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
  parallel_for(tasks, threads, [&](int64_t task) { ++runs[size_t(task)]; });
  for (const auto& count : runs) EXPECT_EQ(count, 1);
}

TEST(parallel_for, runs_every_task_once) {
  for (int threads : {1, 2, 5, 64})
    for (int64_t tasks : {0, 1, 2, 7, 1000}) expect_every_task_once(tasks, threads);
}

// Regions without a pause: a worker still searches one for tasks while the next is published.
TEST(parallel_for, runs_every_task_once_in_regions_without_a_pause) {
  std::vector<int> runs(7);  // not atomic: writes of a region are visible when it ends
  for (int round = 1; round <= 20'000; ++round) {
    const auto tasks = size_t(2 + round % 6);
    parallel_for(int64_t(tasks), 2 + round % 3, [&](int64_t task) { ++runs[size_t(task)]; });
    for (size_t task = 0; task < tasks; ++task) ASSERT_EQ(std::exchange(runs[task], 0), 1) << "task " << task << " of region " << round;
  }
}

TEST(parallel_for, runs_every_task_once_for_many_callers) {
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i)
    callers.emplace_back([i] {
      for (int round = 0; round < 200; ++round) expect_every_task_once(3 + i + round % 5, 2 + i % 3);
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(parallel_for, nests_without_more_threads) {
  std::atomic<int> runs = 0;
  parallel_for(4, 2, [&](int64_t) { parallel_for(4, 2, [&](int64_t) { ++runs; }); });
  EXPECT_EQ(runs, 16);
}

TEST(parallel_for, runs_on_the_callers_thread_inside_another_region) {
  std::atomic<int> elsewhere = 0;
  parallel_for(2, 2, [&](int64_t) {
    const auto caller = std::this_thread::get_id();
    parallel_for(8, 4, [&](int64_t) { elsewhere += std::this_thread::get_id() != caller; });
  });
  EXPECT_EQ(elsewhere, 0);
}

// Concurrent calls from several threads use no more workers in all than one call alone.
TEST(parallel_for, callers_on_several_threads_share_one_budget) {
  const int budget = std::max(4, available_threads()), callers = 5;
  std::atomic<int> helpers = 0, most = 0, runs = 0;
  const auto call = [&] {
    const auto caller = std::this_thread::get_id();
    for (int repeat = 0; repeat < 3; ++repeat)
      parallel_for(12, budget, [&](int64_t) {
        const bool helper = std::this_thread::get_id() != caller;
        const int now = helper ? ++helpers : 0;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        std::this_thread::sleep_for(milliseconds(1));
        if (helper) --helpers;
        ++runs;
      });
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < callers; ++i) threads.emplace_back(call);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs, callers * 3 * 12);
  EXPECT_LE(most, budget - 1);
}

// The exception of the lowest task that throws is rethrown, on any number of threads, and the pool stays usable.
TEST(parallel_for, rethrows_the_exception_of_the_lowest_task) {
  for (int threads : {1, 2, 8}) {
    try {
      parallel_for(100, threads, [](int64_t task) {
        if (task % 10 == 3) throw std::runtime_error("task " + std::to_string(task));
      });
      ADD_FAILURE() << "no exception on " << threads << " threads";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 3") << "on " << threads << " threads";
    }
    expect_every_task_once(100, threads);
  }
}

// Waits inside a task until two threads have arrived, so that a worker exists.
pthread_t some_worker(int threads) {
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> found = false;
  pthread_t worker{};
  parallel_for(2, threads, [&](int64_t) {
    if (std::this_thread::get_id() != caller) {
      worker = pthread_self();
      found = true;
    }
    while (!found) std::this_thread::sleep_for(milliseconds(1));
  });
  return worker;
}

// Holds a thread in a signal handler, as if its core were given to another process.
class Descheduled {
 public:
  explicit Descheduled(pthread_t thread) {
    EXPECT_EQ(::pipe(held_), 0);
    EXPECT_EQ(::pipe(released_), 0);
    std::signal(SIGUSR1, [](int) {
      char byte = 0;
      [[maybe_unused]] const auto told = ::write(held_[1], &byte, 1);
      [[maybe_unused]] const auto read = ::read(released_[0], &byte, 1);
    });
    pthread_kill(thread, SIGUSR1);
    char byte = 0;
    EXPECT_EQ(::read(held_[0], &byte, 1), 1);
  }
  ~Descheduled() {
    char byte = 0;
    EXPECT_EQ(::write(released_[1], &byte, 1), 1);
  }

 private:
  static inline int held_[2], released_[2];
};

TEST(parallel_for, does_not_wait_for_a_worker_that_is_not_scheduled) {
  const pthread_t worker = some_worker(2);
  const Descheduled held(worker);
  for (int round = 0; round < 100; ++round) expect_every_task_once(50, 2);
}

#ifdef __linux__
TEST(parallel_for, sleeps_while_a_worker_finishes_the_last_task) {
  const auto caller = std::this_thread::get_id();
  rusage before{}, after{};
  std::atomic<bool> claimed = false;
  getrusage(RUSAGE_THREAD, &before);
  parallel_for(2, 2, [&](int64_t) {
    if (std::this_thread::get_id() == caller) {
      while (!claimed) std::this_thread::yield();  // until the worker has the other task
      getrusage(RUSAGE_THREAD, &before);
    } else {
      claimed = true;
      std::this_thread::sleep_for(milliseconds(50));
    }
  });
  getrusage(RUSAGE_THREAD, &after);
  EXPECT_GT(after.ru_nvcsw, before.ru_nvcsw) << "the caller never gave its core away";
}
#endif

#ifndef __SANITIZE_THREAD__  // TSan does not let a forked child start threads
int runs_in_child() {
  std::atomic<int> runs = 0;
  parallel_for(100, 2, [&](int64_t) { ++runs; });
  some_worker(2);  // returns once a worker of the child has arrived
  return runs == 100 ? 0 : 1;
}

TEST(parallel_for, works_in_a_forked_child) {
  expect_every_task_once(100, 2);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(runs_in_child());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

TEST(parallel_for, process_exits_with_idle_workers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        expect_every_task_once(100, 8);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}
#endif

TEST(available_threads, honours_the_environment) {
  EXPECT_GE(available_threads(), 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(available_threads(), 1);
  unsetenv("OMP_NUM_THREADS");
}

}  // namespace
}  // namespace weft
