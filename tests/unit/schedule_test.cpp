#include "weft/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "weft/base/error.h"

namespace weft {
namespace {

Schedule make(ScheduleKind kind) { return {.kind = kind, .peak = 0.8, .steps = 100, .warmup = 20, .decay = 40, .final_fraction = 0.25}; }

TEST(schedule, warmup_is_linear_from_the_first_step) {
  for (ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd}) {
    EXPECT_DOUBLE_EQ(learning_rate(make(kind), 1), 0.04) << name(kind);
    EXPECT_DOUBLE_EQ(learning_rate(make(kind), 10), 0.4) << name(kind);
    EXPECT_DOUBLE_EQ(learning_rate(make(kind), 20), 0.8) << name(kind);
  }
}

// Computed by hand: a quarter, half and three quarters of the way, and the end.
TEST(schedule, decay_follows_its_equation) {
  struct Case {
    ScheduleKind kind;
    double at40, at60, at80, at100;
  };
  const double quarter = 0.8 * (0.25 + 0.75 * (1 + std::sqrt(0.5)) / 2), rest = 0.8 * (0.25 + 0.75 * (1 - std::sqrt(0.5)) / 2);
  for (const Case& c : {Case{ScheduleKind::constant, 0.8, 0.8, 0.8, 0.8}, Case{ScheduleKind::linear, 0.65, 0.5, 0.35, 0.2},
                        Case{ScheduleKind::cosine, quarter, 0.5, rest, 0.2}, Case{ScheduleKind::wsd, 0.8, 0.8, 0.5, 0.2}}) {
    const Schedule s = make(c.kind);
    EXPECT_NEAR(learning_rate(s, 40), c.at40, 1e-15) << name(c.kind);
    EXPECT_NEAR(learning_rate(s, 60), c.at60, 1e-15) << name(c.kind);
    EXPECT_NEAR(learning_rate(s, 80), c.at80, 1e-15) << name(c.kind);
    EXPECT_NEAR(learning_rate(s, 100), c.at100, 1e-15) << name(c.kind);
    EXPECT_EQ(learning_rate(s, 1000), learning_rate(s, 100)) << name(c.kind);
  }
}

TEST(schedule, never_rises_after_warmup) {
  for (ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd})
    for (int64_t t = 20; t < 100; ++t) EXPECT_LE(learning_rate(make(kind), t + 1), learning_rate(make(kind), t)) << name(kind) << " " << t;
}

TEST(schedule, without_warmup_and_warmup_only) {
  EXPECT_DOUBLE_EQ(learning_rate({.kind = ScheduleKind::constant, .peak = 1, .steps = 5}, 1), 1);
  EXPECT_DOUBLE_EQ(learning_rate({.kind = ScheduleKind::cosine, .peak = 1, .steps = 5, .warmup = 5}, 5), 1);
  EXPECT_DOUBLE_EQ(learning_rate({.kind = ScheduleKind::wsd, .peak = 1, .steps = 5, .decay = 0}, 5), 1);
}

TEST(schedule, rejects_invalid_settings) {
  EXPECT_NO_THROW(check_schedule(make(ScheduleKind::wsd)));
  const auto spoiled = [](auto spoil) {
    Schedule s = make(ScheduleKind::wsd);
    spoil(s);
    return s;
  };
  EXPECT_THROW(check_schedule(spoiled([](Schedule& s) { s.steps = 0; })), Error);
  EXPECT_THROW(check_schedule(spoiled([](Schedule& s) { s.warmup = 101; })), Error);
  EXPECT_THROW(check_schedule(spoiled([](Schedule& s) { s.decay = 81; })), Error);
  EXPECT_THROW(check_schedule(spoiled([](Schedule& s) { s.peak = NAN; })), Error);
  EXPECT_THROW(check_schedule(spoiled([](Schedule& s) { s.final_fraction = 1.1; })), Error);
  EXPECT_THROW(schedule_from_name("cosin"), Error);
  EXPECT_EQ(schedule_from_name("wsd"), ScheduleKind::wsd);
}

}  // namespace
}  // namespace weft
