// The thread that watches work on a device: when it acts, and when it does not.
#include "weft/comm/nccl/pending_watch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace weft {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Fake : PendingWatch::Work {
  bool started() const override { return is_started; }
  bool done() const override { return is_done; }
  std::atomic<bool> is_started = false, is_done = false;
};

// A watch that keeps what it was told.
struct Watched {
  explicit Watched(milliseconds timeout)
      : watch(timeout, {[this](bool is_waiting) {
                          waiting = is_waiting;
                          return trouble ? "cable cut" : "";
                        },
                        [this](const std::string& why) { in_trouble.set_value(why); },
                        [this](const PendingWatch::Work& work) { late.set_value(&work); }}) {}

  std::atomic<bool> trouble = false, waiting = false;
  std::promise<const PendingWatch::Work*> late;
  std::promise<std::string> in_trouble;
  std::future<const PendingWatch::Work*> was_late = late.get_future();
  std::future<std::string> was_in_trouble = in_trouble.get_future();
  PendingWatch watch;  // last: its thread uses the others
};

TEST(PendingWatch, ReportsTheOldestWorkThatIsLate) {
  Watched watched(milliseconds(100));
  const auto first = std::make_shared<Fake>(), second = std::make_shared<Fake>();
  first->is_started = second->is_started = true;
  watched.watch.add(first);
  watched.watch.add(second);
  first->is_done = true;
  ASSERT_EQ(watched.was_late.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_EQ(watched.was_late.get(), second.get());
}

TEST(PendingWatch, WorkThatHasNotStartedIsNeverLate) {
  Watched watched(milliseconds(50));
  const auto work = std::make_shared<Fake>();
  watched.watch.add(work);
  EXPECT_EQ(watched.was_late.wait_for(milliseconds(500)), std::future_status::timeout);
  work->is_started = true;
  EXPECT_EQ(watched.was_late.wait_for(seconds(20)), std::future_status::ready);
}

TEST(PendingWatch, TimeCountsAnewForEveryPieceOfWork) {
  Watched watched(seconds(2));
  for (int i = 0; i < 30; ++i) {  // 3 seconds in all
    const auto work = std::make_shared<Fake>();
    work->is_started = true;
    watched.watch.add(work);
    std::this_thread::sleep_for(milliseconds(100));
    work->is_done = true;
  }
  EXPECT_EQ(watched.was_late.wait_for(milliseconds(0)), std::future_status::timeout);
}

TEST(PendingWatch, ReportsACallThatDoesNotReturn) {
  Watched watched(milliseconds(100));
  {
    const PendingWatch::Call returns(watched.watch);
  }
  const PendingWatch::Call blocks(watched.watch);
  EXPECT_EQ(watched.was_late.wait_for(seconds(20)), std::future_status::ready);
}

TEST(PendingWatch, ReportsTroubleWithItsText) {
  Watched watched(seconds(60));
  watched.trouble = true;
  ASSERT_EQ(watched.was_in_trouble.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_EQ(watched.was_in_trouble.get(), "cable cut");
}

TEST(PendingWatch, TellsWhetherWorkIsWaitedFor) {
  Watched watched(seconds(60));
  const auto settles = [&](bool expected) {
    for (int i = 0; i < 2000 && watched.waiting != expected; ++i) std::this_thread::sleep_for(milliseconds(10));
    return watched.waiting == expected;
  };
  const auto work = std::make_shared<Fake>();
  watched.watch.add(work);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_FALSE(watched.waiting);
  work->is_started = true;
  EXPECT_TRUE(settles(true));
  work->is_done = true;
  EXPECT_TRUE(settles(false));
}

TEST(PendingWatch, EndsAtOnceWithWorkPending) {
  const auto start = std::chrono::steady_clock::now();
  {
    Watched watched(seconds(600));
    const auto work = std::make_shared<Fake>();
    work->is_started = true;
    watched.watch.add(work);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(20));
}

}  // namespace
}  // namespace weft
