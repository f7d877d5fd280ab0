#include "weft/base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

namespace weft {
namespace {

TEST(parallel_for, runs_every_task_once) {
  for (int threads : {1, 2, 5})
    for (int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      parallel_for(tasks, threads, [&](int64_t task) { ++runs[size_t(task)]; });
      for (const auto& count : runs) EXPECT_EQ(count, 1);
    }
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

// Calls from several threads at once: however many, no more helpers run than one call alone may have.
TEST(parallel_for, callers_on_several_threads_share_one_budget) {
  const int budget = std::max(4, available_threads()), callers = 5;
  std::atomic<int> helpers = 0, most = 0, runs = 0;
  const auto call = [&] {
    const auto caller = std::this_thread::get_id();
    for (int repeat = 0; repeat < 3; ++repeat)
      parallel_for(12, budget, [&](int64_t) {
        const bool helper = std::this_thread::get_id() != caller;
        const int now = helper ? ++helpers : 0;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {}
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
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

TEST(available_threads, honours_the_environment) {
  EXPECT_GE(available_threads(), 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(available_threads(), 1);
  unsetenv("OMP_NUM_THREADS");
}

}  // namespace
}  // namespace weft
