// Several runs on one page: their results, the settings in which they differ, and their curves in common charts.
#pragma once

#include <string>
#include <vector>

#include "weft/train/config.h"
#include "weft/train/history.h"

namespace weft {

struct ComparedRun {
  std::string name;
  TrainConfig config;
  History history;
};

// Reads the run in a folder, finished or not. Throws bad_file naming the folder if it holds no run.
ComparedRun read_run(const std::string& folder);

// `written`: the date in the footer.
std::string comparison_page(const std::vector<ComparedRun>& runs, const std::string& written);

}  // namespace weft
