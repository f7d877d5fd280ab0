#include "weft/train/live_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace weft {

LiveLine::LiveLine(std::FILE* out) : out_(out), terminal_(out && ::isatty(::fileno(out)) == 1) {}

int LiveLine::columns() const {
  winsize size{};
  return out_ && ::ioctl(::fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void LiveLine::show(const std::string& text) {
  std::fprintf(out_, "\r%s\x1b[K", text.c_str());
  std::fflush(out_);
}

void LiveLine::draw(const std::string& text) {
  if (!terminal_) return;
  text_ = text;
  covered_ = false;
  show(text_);
}

void LiveLine::cover(const std::string& text) {
  if (!terminal_) return;
  covered_ = true;
  show(text);
}

void LiveLine::uncover() {
  if (covered_) show(text_);
  covered_ = false;
}

void LiveLine::print(const std::string& text) {
  if (!out_) return;
  const bool shown = covered_ || !text_.empty();
  std::fprintf(out_, "%s%s%s\n", shown ? "\r" : "", text.c_str(), shown ? "\x1b[K" : "");
  std::fflush(out_);
  covered_ = false;
  text_.clear();
}

void LiveLine::finish() {
  if (!out_) return;
  uncover();
  if (!text_.empty()) std::fprintf(out_, "\n");
  text_.clear();
  std::fflush(out_);
}

std::string bar(double done, int width) {
  const int full = std::clamp(int(std::lround(done * width)), 0, width);
  std::string text = "[";
  for (int i = 0; i < width; ++i) text += i < full ? "█" : "░";
  return text + "]";
}

}  // namespace weft
