// A line chart as static inline SVG: labelled axes with round ticks, one line per series. Colours come from the page's style sheet
// (classes s0, s1, ...); an attribute holds the points for the page's script, which shows values under the pointer.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct Series {
  std::string name;
  std::vector<double> x, y;  // points whose y is not finite are skipped
  bool faint = false;        // drawn thin behind the others (the raw values of a smoothed line); the script does not show its values
  bool dots = false;         // each point is marked if there are few
  int colour = 0;            // index; from kChartColours on colours repeat, dashed
};
inline constexpr int kChartColours = 8;

// One highlighted point with a label.
struct Mark {
  double x = 0, y = 0;
  std::string text;
  int colour = 0;
};

struct Chart {
  std::string title, y_label;
  std::vector<Series> series;
  bool from_zero = false;       // y starts at 0; not on a logarithmic axis
  bool percent = false;         // y is a fraction, shown in per cent
  bool whole = false;           // y reaches 1
  bool logarithmic = false;     // y axis; values that are not positive are skipped
  double x_from = 0, x_to = 0;  // the least range of x, so that charts of one run line up
  std::optional<Mark> mark = {};
};

std::string svg(const Chart& chart);

// The CSS class of a series: "s2", or "s2 dash" when colours repeat.
std::string colour_class(int colour);

std::string escape_html(std::string_view text);  // for text and for attributes in double quotes

// At most `most` points: neighbours are replaced by the mean of those that are finite.
Series thinned(const Series& series, size_t most);

// An exponential mean over about `over` points, without a bias at the start.
std::vector<double> smoothed(const std::vector<double>& y, double over);

// The mean of that from both ends: a line that does not lag behind its data.
std::vector<double> smoothed_both_ways(const std::vector<double>& y, double over);

// Round numbers that cover [low, high], about `count` of them.
std::vector<double> ticks(double low, double high, int count);

// For a logarithmic axis: powers of ten, and 2 and 5 times them if those are few. low > 0.
std::vector<double> log_ticks(double low, double high, int count);

}  // namespace weft
