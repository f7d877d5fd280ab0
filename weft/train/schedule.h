// The learning rate of each step t = 1, 2, ..., steps. With w = warm-up steps and f the final fraction of the peak:
//
//   warm-up   t <= w                 peak t / w
//   constant  t > w                  peak
//   linear    t > w                  peak (1 - (1 - f) x)                     x = (t - w) / (steps - w)
//   cosine    t > w                  peak (f + (1 - f) (1 + cos(pi x)) / 2)
//   wsd       w < t <= steps - d     peak                                     warm-up, stable, decay (Hu et al., 2024)
//             t > steps - d          peak (1 - (1 - f) y)                     y = (t - (steps - d)) / d
//
// After `steps` the rate of the last step applies. All in float64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

enum class ScheduleKind { constant, linear, cosine, wsd };
std::string_view name(ScheduleKind kind);
ScheduleKind schedule_from_name(std::string_view name);  // throws for an unknown name, listing the known ones

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  double peak = 1e-3;
  int64_t steps = 1;
  int64_t warmup = 0;
  int64_t decay = 0;            // wsd: steps of the decay
  double final_fraction = 0.1;  // of the peak, at the last step
};

// Throws, naming the value, if warm-up and decay do not fit into the steps.
void check_schedule(const Schedule& schedule);

double learning_rate(const Schedule& schedule, int64_t step);

}  // namespace weft
