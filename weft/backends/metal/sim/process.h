// Runs a program and waits for it.
#pragma once

#include <string>
#include <vector>

namespace weft::metal::sim {

struct ProcessResult {
  int status = 0;      // 0: it said that all went well
  std::string output;  // what it wrote to its standard output and standard error
};

// program is looked up in PATH. Throws `unsupported` when it cannot be started.
ProcessResult run_process(const std::vector<std::string>& program_and_arguments);

}  // namespace weft::metal::sim
