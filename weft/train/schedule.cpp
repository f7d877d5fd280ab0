#include "weft/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "weft/base/check.h"

namespace weft {
namespace {
constexpr std::string_view kNames[] = {"constant", "linear", "cosine", "wsd"};
}

std::string_view name(ScheduleKind kind) { return kNames[size_t(kind)]; }

ScheduleKind schedule_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == name) return ScheduleKind(i);
  fail(ErrorCode::invalid_argument, "schedule", "there is no schedule '", name, "', expected constant, linear, cosine or wsd");
}

void check_schedule(const Schedule& s) {
  check(std::isfinite(s.peak) && s.peak >= 0, "schedule", "the learning rate is ", s.peak, ", expected zero or more");
  check(s.steps >= 1, "schedule", "steps is ", s.steps, ", expected 1 or more");
  check(s.warmup >= 0 && s.warmup <= s.steps, "schedule", "warmup is ", s.warmup, " steps, expected 0 to steps (", s.steps, ")");
  check(s.final_fraction >= 0 && s.final_fraction <= 1, "schedule", "the final fraction is ", s.final_fraction, ", expected 0 to 1");
  if (s.kind == ScheduleKind::wsd)
    check(s.decay >= 0 && s.decay + s.warmup <= s.steps, "schedule", "decay is ", s.decay, " steps and warmup ", s.warmup,
          ", expected no more than steps (", s.steps, ") together");
}

double learning_rate(const Schedule& s, int64_t step) {
  const int64_t t = std::clamp<int64_t>(step, 0, s.steps);
  if (t < s.warmup) return s.peak * double(t) / double(s.warmup);
  const auto fallen = [&](double fraction) { return s.peak * (1 - (1 - s.final_fraction) * fraction); };
  const double x = s.steps > s.warmup ? double(t - s.warmup) / double(s.steps - s.warmup) : 0;
  switch (s.kind) {
    case ScheduleKind::constant: return s.peak;
    case ScheduleKind::linear: return fallen(x);
    case ScheduleKind::cosine: return fallen((1 - std::cos(std::numbers::pi * x)) / 2);
    case ScheduleKind::wsd: {
      const int64_t stable_until = s.steps - s.decay;
      return t <= stable_until ? s.peak : fallen(double(t - stable_until) / double(s.decay));
    }
  }
  return s.peak;
}

}  // namespace weft
