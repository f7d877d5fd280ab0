// A command that the ranks of a launcher (mpirun, srun) run together.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "weft/comm/communicator.h"

namespace weft::cli {

// By the launcher's environment; nothing of MPI is touched. False too if the environment is malformed.
bool one_of_several();
bool first_of_several();

// Runs `work` and returns its exit code, or that of its error. An error that all ranks have agreed on is printed by rank 0; any
// other, with rank and host, by the rank that has it, and ends all ranks. `ranks` may be replaced meanwhile, by one on the device. Alone:
// errors pass.
int ranked(std::unique_ptr<Communicator>& ranks, const std::function<int()>& work);

// A command line that this rank could not parse: agrees with the others on the error, and returns the exit code.
int wrong_usage(const std::string& text);

}  // namespace weft::cli
