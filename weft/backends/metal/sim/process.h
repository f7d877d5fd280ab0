// Runs a program and waits for it.
#pragma once

#include <string>
#include <vector>

namespace weft::metal::sim {

struct ProcessResult {
  int status = 0;      // exit status; 0: success
  std::string output;  // stdout and stderr
};

// The program is looked up in PATH. Throws `unsupported` if it cannot be started.
ProcessResult run_process(const std::vector<std::string>& program_and_arguments);

}  // namespace weft::metal::sim
