// report.html: the results of a run as one page that needs no network and no other file.
#pragma once

#include <string>
#include <vector>

#include "weft/train/history.h"

namespace weft {

struct ReportFacts {
  std::string title;     // the model
  std::string subtitle;  // the data
  std::string state;     // "running" (the page then refreshes itself), "finished", "finished early at step 90", "stopped at step 120"
  int64_t steps = 0;     // planned
  std::vector<std::pair<std::string, std::string>> facts;  // parameters, device, ...
  std::string config;                                      // as TOML
  std::string written;                                     // the date in the footer
};

// Seconds after which the page of an unfinished run reloads itself; the trainer writes it about as often.
inline constexpr int kReportSeconds = 10;

std::string report_page(const ReportFacts& facts, const History& history);

// Writes the page atomically.
void write_report(const std::string& path, const ReportFacts& facts, const History& history);

}  // namespace weft
