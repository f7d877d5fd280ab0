// What the pages of one run and of several are built from.
#pragma once

#include <string>
#include <vector>

#include "weft/train/chart.h"
#include "weft/train/history.h"

namespace weft {

// A whole page around `body`. `refresh`: it loads itself again every so many seconds; 0: never.
std::string html_page(const std::string& title, const std::string& body, int refresh = 0);

// A chart with its title, its legend and, where `log_scale` is set, a switch to a logarithmic axis. "" where it has no points.
std::string figure(const Chart& chart, bool log_scale = false);

// One value of every step of a run, or of every evaluation.
Series step_series(const History& history, double StepRecord::* value);
Series validation_series(const History& history);
Series accuracy_series(const History& history);

// The series without its noise: over more steps, the more there are.
Series smooth(const Series& each);

double smoothed_loss(const History& history);  // of the last steps
double median(std::vector<double> values);     // of those that are finite; NaN where there are none
std::string decimals(const char* pattern, double value);

}  // namespace weft
