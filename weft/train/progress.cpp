#include "weft/train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

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

int terminal_columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double done, int width) {
  const int full = std::clamp(int(std::lround(done * width)), 0, width);
  std::string text = "[";
  for (int i = 0; i < width; ++i) text += i < full ? "█" : "░";
  return text + "]";
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto s = int64_t(std::llround(std::max(0.0, seconds)));
  if (s >= 3600) return format("%lld:%02lld:%02lld", (long long)(s / 3600), (long long)(s / 60 % 60), (long long)(s % 60));
  return format("%lld:%02lld", (long long)(s / 60), (long long)(s % 60));
}

std::string count_text(double value) {
  if (value >= 1e9) return format("%.3gG", value * 1e-9);
  if (value >= 1e6) return format("%.3gM", value * 1e-6);
  if (value >= 1e3) return format("%.3gk", value * 1e-3);
  return format("%.3g", value);
}

std::string progress_line(const StepRecord& r, int64_t steps, double smoothed_loss, double seconds_left, int columns) {
  const std::string total = std::to_string(steps);
  const std::string head = format("%*lld/%s", int(total.size()), (long long)r.step, total.c_str());
  std::string tail = format("loss %.4f (%.4f)  lr %.2e  |g| %.3g  %s tok/s", r.loss, smoothed_loss, r.learning_rate, r.gradient_norm,
                            count_text(r.tokens_per_second).c_str());
  if (r.utilisation > 0) tail += format("  %.0f %% of peak", 100 * r.utilisation);
  tail += "  " + duration_text(seconds_left) + " left";
  const int room = columns - int(head.size() + tail.size()) - 5;
  if (room < 6) return head + " " + tail;
  return head + " " + bar(double(r.step) / double(std::max<int64_t>(1, steps)), std::min(room, 30)) + " " + tail;
}

Progress::Progress(std::FILE* out, int64_t steps, int64_t every)
    : out_(out), steps_(steps), every_(std::max<int64_t>(1, every)), terminal_(::isatty(::fileno(out)) == 1) {}

void Progress::step(const StepRecord& record, double seconds_left) {
  constexpr double kKeep = 0.98;
  smoothed_ = (smoothed_ * weight_ * kKeep + record.loss) / (weight_ * kKeep + 1);
  weight_ = weight_ * kKeep + 1;
  if (terminal_) {
    std::fprintf(out_, "\r%s\x1b[K", progress_line(record, steps_, smoothed_, seconds_left, terminal_columns(out_)).c_str());
    drawn_ = true;
  } else if (record.step % every_ == 0 || record.step == steps_ || record.step == 1) {
    std::fprintf(out_, "%s\n", progress_line(record, steps_, smoothed_, seconds_left, 0).c_str());
  }
  std::fflush(out_);
}

void Progress::note(const std::string& text) {
  std::fprintf(out_, "%s%s%s\n", drawn_ ? "\r" : "", text.c_str(), drawn_ ? "\x1b[K" : "");
  std::fflush(out_);
}

void Progress::finish() {
  if (drawn_) std::fprintf(out_, "\n");
  drawn_ = false;
  std::fflush(out_);
}

}  // namespace weft
