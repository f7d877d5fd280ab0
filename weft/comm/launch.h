// How a run of several processes is started and joined.
//
//   mpirun -n 4 weft train ...      srun -n 16 weft train ...
//
//   std::unique_ptr<Communicator> ranks = open_communicator();      // of this process: one rank, or one of many
//
// The launcher is known by its environment variables. A process that was not started by one, or was started as the only one, is alone:
// MPI's library is then not even loaded.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/comm/communicator.h"

namespace weft {

struct Launch {
  int rank = 0, size = 1;
  int local_rank = 0, local_size = 1;  // among the processes of this host
  std::string by;                      // "mpirun", "srun"; empty: started alone
};

// Reads environment variables: those of Open MPI's mpirun, of Hydra (MPICH's mpirun) and of srun. Throws if one is not a number or the
// rank is not below the size.
Launch launch_of_environment();
Launch launch_of_environment(const std::function<const char*(const char*)>& getenv);

struct CommunicatorOptions {
  std::chrono::seconds timeout{600};  // of waiting for another rank
};

// The ranks of this run. Several processes: MPI's, which all call this; it throws if the build has no MPI, and in rank 0 only (the others
// end silently with exit status 1). To be called once, before the process starts threads. The destructor ends MPI, which waits for all
// ranks; while an exception is thrown it does not.
std::unique_ptr<Communicator> open_communicator(const CommunicatorOptions& options = {});

// The engines for several processes in this build and on this machine: "MPI" and "NCCL".
struct EngineEntry {
  std::string name;
  bool available;
  std::string text;  // "Open MPI 4.1.4", or why it is not available
};
std::vector<EngineEntry> list_engines();

}  // namespace weft
