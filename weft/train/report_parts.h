// Elements shared by the page of one run and the comparison of several.
#pragma once

#include <string>
#include <vector>

#include "weft/train/chart.h"
#include "weft/train/history.h"

namespace weft {

// A whole page around `body`. `refresh`: seconds after which it reloads itself; 0: never.
std::string html_page(const std::string& title, const std::string& body, int refresh = 0);

// A chart with title, legend and, if `log_scale`, a switch to a logarithmic axis. "" if it has no points.
std::string figure(const Chart& chart, bool log_scale = false);

// One value of every step of a run, skipped ones left out, or of every evaluation.
Series step_series(const History& history, double StepRecord::* value);
Series validation_series(const History& history);
Series accuracy_series(const History& history);
// The first score of each task over the steps, named "arc acc" or "arc acc (5-shot)".
std::vector<Series> task_series(const History& history);
bool is_bits_per_byte(const std::string& series);  // by its name; else a share

// The series smoothed over a number of steps that grows with its length.
Series smooth(const Series& each);

double smoothed_loss(const History& history);  // of the last steps
double median(std::vector<double> values);     // of the finite values; NaN if there are none
std::string decimals(const char* pattern, double value);

}  // namespace weft
