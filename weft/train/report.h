// report.html: one page that says how a run went. It needs no network and no other file; it can be mailed.
#pragma once

#include <string>
#include <vector>

#include "weft/train/history.h"

namespace weft {

struct ReportFacts {
  std::string title;                                       // the model
  std::string subtitle;                                    // the data
  std::string state;                                       // "running" (the page then refreshes itself), "finished", "stopped at step 120"
  int64_t steps = 0;                                       // planned
  std::vector<std::pair<std::string, std::string>> facts;  // parameters, device, ...
  std::string config;                                      // as TOML
  std::string written;                                     // date, for the foot of the page
};

// How often a page looks for a newer one while its run goes on; a trainer writes it about as often.
inline constexpr int kReportSeconds = 10;

std::string report_page(const ReportFacts& facts, const History& history);

// Writes the page whole or not at all.
void write_report(const std::string& path, const ReportFacts& facts, const History& history);

}  // namespace weft
