// A line chart as inline SVG, drawn once, with no script needed to see it: labelled axes with round ticks, one line per series.
// Colours are the page's (classes s0, s1, ...); the points stand in an attribute for whoever wants to read them off.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct Series {
  std::string name;
  std::vector<double> x, y;  // points whose y is not finite are left out
  bool faint = false;        // drawn thin behind the others (what a smoothed line smooths), and not read off
  bool dots = false;         // each point is marked, where they are few
  int colour = 0;            // of kChartColours; beyond them they come again, dashed
};
inline constexpr int kChartColours = 8;

// One point that stands out, with a few words.
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
  bool logarithmic = false;     // y's axis; what is not positive is left out
  double x_from = 0, x_to = 0;  // what x shows at least, so that charts of one run line up
  std::optional<Mark> mark = {};
};

std::string svg(const Chart& chart);

// "s2", " dash" added where the colours come again: the class of a series.
std::string colour_class(int colour);

std::string escape_html(std::string_view text);  // for text and for attributes in double quotes

// At most `most` points: neighbours are replaced by the mean of those that are finite.
Series thinned(const Series& series, size_t most);

// An exponential mean over about `over` points, right from the first.
std::vector<double> smoothed(const std::vector<double>& y, double over);

// The same from both sides: a line that does not lag behind what it smooths.
std::vector<double> smoothed_both_ways(const std::vector<double>& y, double over);

// Round numbers that cover [low, high], about `count` of them.
std::vector<double> ticks(double low, double high, int count);

// For a logarithmic axis: powers of ten, with 2 and 5 times them where those alone would be few. low > 0.
std::vector<double> log_ticks(double low, double high, int count);

}  // namespace weft
