// A program that links an OpenMP runtime: inside its parallel regions our tasks run on the calling thread.
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "weft/base/parallel.h"

namespace weft {
namespace {

TEST(parallel_for, runs_on_the_callers_thread_inside_an_openmp_region) {
  std::atomic<int> elsewhere = 0, runs = 0;
#pragma omp parallel num_threads(2)
  for (int round = 0; round < 3; ++round) {
    const auto caller = std::this_thread::get_id();
    parallel_for(8, 4, [&](int64_t) {
      elsewhere += std::this_thread::get_id() != caller;
      ++runs;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // time for a worker to arrive
    });
  }
  EXPECT_EQ(runs, 2 * 3 * 8);
  EXPECT_EQ(elsewhere, 0);
}

}  // namespace
}  // namespace weft
