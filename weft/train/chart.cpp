#include "weft/train/chart.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "weft/base/check.h"

namespace weft {
namespace {

// Small enough that text is readable when the drawing is as narrow as a phone.
constexpr double kWidth = 420, kHeight = 250, kLeft = 66, kRight = 16, kTop = 10, kBottom = 42;
constexpr size_t kMostPoints = 400, kMostDots = 60;

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
  if (size >= 1e9) return scientific(value);
  if (size >= 1e6) return number("%.3g", value / 1e6) + "M";
  if (size >= 1e4 || step >= 5e3) return number("%.3g", value / 1e3) + "k";
  if (step < 1e-3) return scientific(value);
  const int decimals = std::clamp(int(-std::floor(std::log10(step) + 1e-9)), 0, 5);
  char text[40];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

// From values to places in the drawing. On a logarithmic axis the range is that of the logarithms.
class Frame {
 public:
  Frame(Range x, Range y, bool logarithmic) : x_(x), y_(y), logarithmic_(logarithmic) {}
  double across(double x) const { return kLeft + (x - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight); }
  double down(double y) const {
    return kHeight - kBottom - (on_axis(y, logarithmic_) - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }
  bool shows(double y) const { return std::isfinite(on_axis(y, logarithmic_)); }
  std::vector<double> y_ticks() const {
    return logarithmic_ ? log_ticks(std::pow(10, y_.low), std::pow(10, y_.high), 6) : ticks(y_.low, y_.high, 6);
  }
  std::vector<double> x_ticks() const { return ticks(x_.low, x_.high, 5); }
  std::string x_text() const { return join(number("%.9g", x_.low), " ", number("%.9g", x_.high)); }

  static double on_axis(double y, bool logarithmic) { return !logarithmic ? y : y > 0 ? std::log10(y) : NAN; }

 private:
  Range x_, y_;
  bool logarithmic_;
};

Frame frame_of(const Chart& chart, const std::vector<Series>& all) {
  Range x, y;
  if (chart.x_from < chart.x_to) x.add(chart.x_from), x.add(chart.x_to);
  const auto add = [&](double at, double value) {
    const double place = Frame::on_axis(value, chart.logarithmic);
    if (std::isfinite(place)) x.add(at), y.add(place);
  };
  for (const Series& s : all)
    for (size_t i = 0; i < s.x.size(); ++i) add(s.x[i], s.y[i]);
  if (chart.mark) add(chart.mark->x, chart.mark->y);
  const bool from_zero = chart.from_zero && !chart.logarithmic;
  if (from_zero) y.add(0);
  if (chart.whole && !chart.logarithmic) y.add(1);
  x.widen();
  y.widen();
  const double margin = 0.04 * (y.high - y.low);
  if (!from_zero || y.low < 0) y.low -= margin;
  y.high += margin;
  return Frame(x, y, chart.logarithmic);
}

std::string grid(const Frame& frame, const Chart& chart) {
  std::string out;
  const std::vector<double> xs = frame.x_ticks(), ys = frame.y_ticks();
  const double y_step = ys.size() > 1 ? ys[1] - ys[0] : 1, x_step = xs.size() > 1 ? xs[1] - xs[0] : 1;
  for (double y : ys) {
    const std::string at = number("%.1f", frame.down(y));
    out += join("<path class=grid d=\"M", kLeft, " ", at, "H", kWidth - kRight, "\"/><text x=", kLeft - 6, " y=", at,
                " dy=.34em text-anchor=end>", label(y, chart.logarithmic ? std::min(y, y_step) : y_step, chart.percent), "</text>");
  }
  for (double x : xs)
    out += join("<text x=", number("%.1f", frame.across(x)), " y=", kHeight - kBottom + 16, " text-anchor=middle>", label(x, x_step, false),
                "</text>");
  const double middle = 0.5 * (kTop + kHeight - kBottom);
  out += join("<text class=axis x=", 0.5 * (kLeft + kWidth - kRight), " y=", kHeight - 7, " text-anchor=middle>step</text>");
  return out + join("<text class=axis transform=\"translate(11 ", middle, ")rotate(-90)\" text-anchor=middle>", escape_html(chart.y_label),
                    "</text>");
}

std::string line(const Frame& frame, const Series& s) {
  std::string path, dots;
  const std::string colour = colour_class(s.colour);
  bool up = true;
  for (size_t i = 0; i < s.x.size(); ++i) {
    if (!frame.shows(s.y[i])) {
      up = true;
      continue;
    }
    const std::string x = number("%.1f", frame.across(s.x[i])), y = number("%.1f", frame.down(s.y[i]));
    // A point between two gaps is a line of no length: round ends make it a dot.
    const bool alone = up && (i + 1 == s.x.size() || !frame.shows(s.y[i + 1]));
    path += join(up ? "M" : "L", x, " ", y, alone ? "h0" : "");
    up = false;
    if (s.dots && s.x.size() <= kMostDots) dots += join("<circle cx=", x, " cy=", y, " r=2.4 class=\"dot ", colour, "\"/>");
  }
  return join("<path class=\"line ", colour, s.faint ? " faint" : "", "\" d=\"", path, "\"/>", dots);
}

// The words stand above the point and as far to its right as there is room: a loss that falls leaves some there.
std::string marked(const Frame& frame, const Mark& mark) {
  if (!frame.shows(mark.y)) return "";
  constexpr double kLetter = 7;  // about the width of one in bold
  const double x = frame.across(mark.x), y = frame.down(mark.y);
  const bool ends = x + kLetter * double(mark.text.size()) > kWidth - kRight, below = y < kTop + 24;
  return join("<circle class=\"ring ", colour_class(mark.colour), "\" cx=", number("%.1f", x), " cy=", number("%.1f", y),
              " r=5 /><text class=mark x=", number("%.1f", ends ? kWidth - kRight + 6 : x - 5),
              " y=", number("%.1f", below ? y + 22 : y - 14), " text-anchor=", ends ? "end" : "start", ">", escape_html(mark.text),
              "</text>");
}

// "x,y x,y|..." for the page's script: the series that are read off, in order.
std::string points(const std::vector<Series>& all) {
  std::string out;
  bool first = true;
  for (const Series& s : all) {
    if (s.faint) continue;
    if (!first) out += '|';
    first = false;
    for (size_t i = 0; i < s.x.size(); ++i)
      if (std::isfinite(s.y[i])) out += join(number("%.6g", s.x[i]), ",", number("%.4g", s.y[i]), " ");
  }
  return out;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

std::string colour_class(int colour) { return join("s", colour % kChartColours, colour / kChartColours % 2 ? " dash" : ""); }

std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / std::max(1, count), scale = std::pow(10, std::floor(std::log10(rough)));
  double step = scale;
  for (double m : {2.0, 5.0, 10.0})
    if (step < rough) step = m * scale;
  std::vector<double> out;
  const double first = std::ceil(low / step - 1e-9);
  for (int k = 0; k <= 10 * std::max(1, count) && (first + k) * step <= high + 1e-9 * step; ++k) out.push_back((first + k) * step);
  return out;
}

std::vector<double> log_ticks(double low, double high, int count) {
  const double from = std::log10(low), to = std::log10(high), decades = to - from;
  if (decades < 1) return ticks(low, high, count);
  const int every = std::max(1, int(std::ceil(decades / count)));
  std::vector<double> out;
  for (int power = int(std::floor(from)); power <= int(std::ceil(to)); ++power)
    for (double m : {1.0, 2.0, 5.0}) {
      if (m > 1 && 3 * decades > 1.5 * count) continue;
      const double tick = m * std::pow(10, power);
      if (power % every == 0 && tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) out.push_back(tick);
    }
  return out;
}

Series thinned(const Series& series, size_t most) {
  if (series.x.size() <= most) return series;
  Series out = series;
  out.x.clear(), out.y.clear();
  for (size_t k = 0; k < most; ++k) {
    const size_t first = k * series.x.size() / most, last = (k + 1) * series.x.size() / most;
    double x = 0, y = 0, finite = 0;
    for (size_t i = first; i < last; ++i) {
      x += series.x[i];
      if (std::isfinite(series.y[i])) y += series.y[i], ++finite;
    }
    out.x.push_back(x / double(last - first));
    out.y.push_back(finite > 0 ? y / finite : NAN);
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
  std::vector<Series> all;
  for (const Series& s : chart.series) all.push_back(thinned(s, kMostPoints));
  const Frame frame = frame_of(chart, all);
  std::string out = join("<svg viewBox=\"0 0 ", kWidth, " ", kHeight, "\" role=img aria-label=\"", escape_html(chart.title),
                         "\" class=", chart.logarithmic ? "logarithmic" : "linear");
  if (chart.percent) out += " data-percent";
  out += join(" data-range=\"", frame.x_text(), "\" data-frame=\"", kLeft, " ", kRight, " ", kTop, " ", kBottom, "\" data-points=\"",
              points(all), "\">");
  out += grid(frame, chart);
  for (const Series& s : all) out += line(frame, s);
  if (chart.mark) out += marked(frame, *chart.mark);
  return out + "</svg>";
}

}  // namespace weft
