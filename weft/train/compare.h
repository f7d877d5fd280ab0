// Several runs on one page: what they reached, where their settings differ, and their curves in one chart each.
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

// The run in a folder, finished or not. Throws bad_file naming the folder for one that holds no run.
ComparedRun read_run(const std::string& folder);

// `written`: date, for the foot of the page.
std::string comparison_page(const std::vector<ComparedRun>& runs, const std::string& written);

}  // namespace weft
