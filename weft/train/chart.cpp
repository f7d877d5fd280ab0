#include "weft/train/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "weft/base/check.h"

namespace weft {
namespace {

// Small enough that text is readable when the drawing is as narrow as a phone.
constexpr double kWidth = 420, kHeight = 230, kLeft = 46, kRight = 16, kTop = 8, kBottom = 24;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double value) {
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  }
  void widen() {
    if (!(low <= high)) low = 0, high = 1;
    if (low == high) low -= low == 0 ? 1 : 0.1 * std::abs(low), high += high == 0 ? 1 : 0.1 * std::abs(high);
  }
};

std::string number(const char* pattern, double value) {
  char text[40];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

// "5e-4": an exponent with no padding.
std::string scientific(double value) {
  const int exponent = int(std::floor(std::log10(std::abs(value)) + 1e-9));
  return join(number("%.3g", value / std::pow(10, exponent)), "e", exponent);
}

std::string label(double value, double step, bool percent) {
  if (std::abs(value) < 1e-9 * step) return percent ? "0 %" : "0";
  if (percent) return number(step < 0.01 ? "%.1f" : "%.0f", 100 * value) + " %";
  const double size = std::max(std::abs(value), step);
  if (size >= 1e6) return number("%.3g", value / 1e6) + "M";
  if (size >= 1e4) return number("%.3g", value / 1e3) + "k";
  if (step < 1e-3) return scientific(value);
  const int decimals = std::clamp(int(-std::floor(std::log10(step) + 1e-9)), 0, 5);
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

class Frame {
 public:
  Frame(Range x, Range y) : x_(x), y_(y) {}
  double across(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight); }
  double down(double y) const { return kHeight - kBottom - (y - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom); }

 private:
  Range x_, y_;
};

std::string grid(const Frame& frame, const std::vector<double>& xs, const std::vector<double>& ys, bool percent) {
  std::string out;
  const double y_step = ys.size() > 1 ? ys[1] - ys[0] : 1, x_step = xs.size() > 1 ? xs[1] - xs[0] : 1;
  for (double y : ys) {
    const std::string at = number("%.1f", frame.down(y));
    out += join("<path class=grid d=\"M", kLeft, " ", at, "H", kWidth - kRight, "\"/><text x=", kLeft - 6, " y=", at, " dy=.34em text-anchor=end>",
                label(y, y_step, percent), "</text>");
  }
  for (double x : xs)
    out += join("<text x=", number("%.1f", frame.across(x)), " y=", kHeight - 7, " text-anchor=middle>", label(x, x_step, false), "</text>");
  return out;
}

std::string line(const Frame& frame, const Series& s, const std::string& colour) {
  std::string path, dots;
  bool up = true;
  for (size_t i = 0; i < s.x.size(); ++i) {
    if (!std::isfinite(s.y[i])) {
      up = true;
      continue;
    }
    const std::string x = number("%.1f", frame.across(s.x[i])), y = number("%.1f", frame.down(s.y[i]));
    path += join(up ? "M" : "L", x, " ", y);
    up = false;
    if (s.dots) dots += join("<circle cx=", x, " cy=", y, " r=2.4 class=\"dot ", colour, "\"/>");
  }
  return join("<path class=\"line ", colour, s.faint ? " faint" : "", "\" d=\"", path, "\"/>", dots);
}

// "name|x,y x,y|..." for the page's script.
std::string points(const std::vector<Series>& all) {
  std::string out;
  for (const Series& s : all) {
    if (!out.empty()) out += '|';
    out += s.name + ':';
    for (size_t i = 0; i < s.x.size(); ++i)
      if (std::isfinite(s.y[i])) out += join(i ? " " : "", number("%.6g", s.x[i]), ",", number("%.5g", s.y[i]));
  }
  return out;
}

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / std::max(1, count), scale = std::pow(10, std::floor(std::log10(rough)));
  double step = scale;
  for (double m : {2.0, 5.0, 10.0})
    if (step < rough) step = m * scale;
  std::vector<double> out;
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k) out.push_back(k * step);
  return out;
}

Series thinned(const Series& series, size_t most) {
  if (series.x.size() <= most) return series;
  Series out{series.name, {}, {}, series.faint, series.dots};
  for (size_t k = 0; k < most; ++k) {
    const size_t first = k * series.x.size() / most, last = (k + 1) * series.x.size() / most;
    double x = 0, y = 0;
    for (size_t i = first; i < last; ++i) x += series.x[i], y += series.y[i];
    out.x.push_back(x / double(last - first));
    out.y.push_back(y / double(last - first));
  }
  return out;
}

std::vector<double> smoothed(const std::vector<double>& y, double over) {
  const double keep = 1 - 1 / std::max(1.0, over);
  std::vector<double> out;
  double sum = 0, weight = 0;
  for (double value : y) {
    if (std::isfinite(value)) sum = sum * keep + value, weight = weight * keep + 1;
    out.push_back(weight > 0 ? sum / weight : value);
  }
  return out;
}

std::vector<double> smoothed_both_ways(const std::vector<double>& y, double over) {
  std::vector<double> out = smoothed(y, over), back = smoothed({y.rbegin(), y.rend()}, over);
  for (size_t i = 0; i < out.size(); ++i) out[i] = 0.5 * (out[i] + back[out.size() - 1 - i]);
  return out;
}

std::string svg(const Chart& chart) {
  Range x, y;
  if (chart.x_from < chart.x_to) x.add(chart.x_from), x.add(chart.x_to);
  std::vector<Series> all;
  for (const Series& s : chart.series) all.push_back(thinned(s, 400));
  for (const Series& s : all)
    for (size_t i = 0; i < s.x.size(); ++i)
      if (std::isfinite(s.y[i])) x.add(s.x[i]), y.add(s.y[i]);
  if (chart.from_zero) y.add(0);
  if (chart.whole) y.add(1);
  x.widen();
  y.widen();
  const double margin = 0.04 * (y.high - y.low);
  if (!chart.from_zero || y.low < 0) y.low -= margin;
  y.high += margin;
  const Frame frame(x, y);
  std::string out = join("<svg viewBox=\"0 0 ", kWidth, " ", kHeight, "\" role=img aria-label=\"", chart.title, "\" data-range=\"", number("%.9g", x.low), " ",
                         number("%.9g", x.high), " ", number("%.9g", y.low), " ", number("%.9g", y.high), "\" data-frame=\"", kLeft, " ", kRight, " ", kTop, " ", kBottom,
                         "\" data-points=\"", points(all), "\">");
  out += grid(frame, ticks(x.low, x.high, 5), ticks(y.low, y.high, 6), chart.percent);
  for (size_t i = 0; i < all.size(); ++i) out += line(frame, all[i], join("s", i));
  return out + "</svg>";
}

}  // namespace weft
