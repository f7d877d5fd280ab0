#include "weft/train/progress.h"

#include <algorithm>
#include <cmath>

namespace weft {
namespace {

template <class... Args>
std::string format(const char* pattern, Args... args) {
  char text[160];
  std::snprintf(text, sizeof text, pattern, args...);
  return text;
}

// Four decimals, as long as they fit the ten columns that a loss takes at most.
std::string loss_text(double loss) { return std::abs(loss) < 1e5 ? format("%.4f", loss) : format("%.4g", loss); }

// "3.0e-4": two digits, and an exponent without padding.
std::string short_scientific(double value) {
  std::string text = format("%.1e", value);
  if (const size_t sign = text.find('e') + 1; sign != 0 && text.size() == sign + 3 && text[sign + 1] == '0') text.erase(sign + 1, 1);
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto s = int64_t(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return format("%lld:%02lld:%02lld", (long long)(s / 3600), (long long)(s / 60 % 60), (long long)(s % 60));
  return format("%lld:%02lld", (long long)(s / 60), (long long)(s % 60));
}

std::string count_text(double value) {
  const char* unit = "";
  for (const char* next : {"k", "M", "G", "T", "P", "E"}) {
    if (value < 999.5) break;  // what would be written as 1e+03
    value *= 1e-3;
    unit = next;
  }
  return format("%.3g%s", value, unit);
}

std::string progress_line(const StepRecord& r, int64_t steps, double smoothed_loss, double seconds_left, int columns, int ranks) {
  const std::string total = std::to_string(steps), step = std::to_string(r.step);
  const std::string head = format("%*lld/%s ", int(total.size()), (long long)r.step, total.c_str());
  const std::string loss = "loss " + loss_text(r.loss), smooth = " (" + loss_text(smoothed_loss) + ")";
  const std::string rate = format("  lr %.2e", r.learning_rate), norm = format("  |g| %.3g", r.gradient_norm);
  const std::string short_rate = "  lr " + short_scientific(r.learning_rate), short_norm = format("  |g| %.2g", r.gradient_norm);
  const std::string speed = "  " + count_text(r.tokens_per_second) + " tok/s", left = "  " + duration_text(seconds_left) + " left";
  const std::string share = r.utilisation > 0 ? format("  %.0f %% of peak", 100 * r.utilisation) : "";
  const std::string by = ranks > 1 ? format(" on %d ranks", ranks) : "";
  const std::string all = loss + smooth + rate + norm + speed + by + share + left;
  if (columns == 0) return head + all;
  // A line that wraps cannot be redrawn, so the least important fields are dropped first. The last column stays free.
  const int room = columns - 1;
  constexpr int kLeastBar = 6, kMostBar = 30, kAroundBar = 3;  // two brackets and a space
  if (const int left_over = room - int(head.size() + all.size()) - kAroundBar; left_over >= kLeastBar)
    return head + bar(double(r.step) / double(std::max<int64_t>(1, steps)), std::min(left_over, kMostBar)) + " " + all;
  for (const std::string& line : {head + all, head + loss + smooth + rate + norm + speed + by + left,
                                  head + loss + smooth + rate + norm + speed + left, head + loss + rate + norm + speed + left,
                                  head + loss + short_rate + short_norm + speed + left, head + loss + short_rate + short_norm + left,
                                  head + loss + short_rate + short_norm, head + loss + short_rate, head + loss, step + " " + loss, loss})
    if (int(line.size()) <= room) return line;
  return loss_text(r.loss).substr(0, size_t(std::max(1, room)));
}

Progress::Progress(std::FILE* out, int64_t steps, int64_t every, int ranks)
    : line_(out), steps_(steps), every_(std::max<int64_t>(1, every)), ranks_(ranks) {}

void Progress::step(const StepRecord& record, double seconds_left) {
  constexpr double kKeep = 0.98;
  if (!record.skipped) {
    smoothed_ = (smoothed_ * weight_ * kKeep + record.loss) / (weight_ * kKeep + 1);
    weight_ = weight_ * kKeep + 1;
  }
  if (line_.terminal())
    line_.draw(progress_line(record, steps_, smoothed_, seconds_left, line_.columns(), ranks_));
  else if (record.step % every_ == 0 || record.step == steps_ || record.step == 1)
    line_.print(progress_line(record, steps_, smoothed_, seconds_left, 0, ranks_));
}

void Progress::note(const std::string& text) { line_.print(text); }
void Progress::finish() { line_.finish(); }

}  // namespace weft
