#include "weft/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
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

TEST(available_threads, honours_the_environment) {
  EXPECT_GE(available_threads(), 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  EXPECT_EQ(available_threads(), 1);
  unsetenv("OMP_NUM_THREADS");
}

}  // namespace
}  // namespace weft
