// A line chart as inline SVG, drawn once, with no script needed to see it: axes with round ticks, one line per series.
// Colours are the page's (classes s0, s1, ...); the points stand in an attribute for whoever wants to read them off.
#pragma once

#include <string>
#include <vector>

namespace weft {

struct Series {
  std::string name;
  std::vector<double> x, y;  // points whose y is not finite are left out
  bool faint = false;        // drawn thin behind the others (what a smoothed line smooths)
  bool dots = false;         // few points, each marked
};

struct Chart {
  std::string title, unit;  // unit: of y, may be empty
  std::vector<Series> series;
  bool from_zero = false;   // y starts at 0
  bool percent = false;     // y is a fraction, shown in per cent
  bool whole = false;       // y reaches 1
  double x_from = 0, x_to = 0;  // what x shows at least, so that charts of one run line up
};

std::string svg(const Chart& chart);

// At most `most` points: neighbours are replaced by their mean.
Series thinned(const Series& series, size_t most);

// An exponential mean over about `over` points, right from the first.
std::vector<double> smoothed(const std::vector<double>& y, double over);

// The same from both sides: a line that does not lag behind what it smooths.
std::vector<double> smoothed_both_ways(const std::vector<double>& y, double over);

// Round numbers that cover [low, high], about `count` of them.
std::vector<double> ticks(double low, double high, int count);

}  // namespace weft
