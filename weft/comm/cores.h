// The cores of one host, shared by the ranks that run there.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "weft/comm/communicator.h"

namespace weft {

// Divides the cores that ranks of this host share, and returns the number of threads for DeviceOptions::threads: `threads` if it is not 0
// or if there is one rank, else this rank's number of cores. The rank is bound to the packages (sockets) of its cores rather than to the
// cores, so that threads can move away from a core that another process slows down. Collective; call it before the process starts threads.
//
// Ranks that the user has bound to cores of their own (mpirun --map-by slot:PE=8, srun --cpus-per-task=8) stay there. A default of Open
// MPI's mpirun is undone: it binds each of two ranks to one core, and the other cores would be idle. With more ranks than cores
// nothing is bound and each rank has one thread.
int share_cores(Communicator& communicator, int threads);

namespace detail {

using Cpus = std::vector<int>;  // as the system numbers them, ascending

struct RankCpus {
  std::string host;
  Cpus now;       // its affinity mask
  Cpus undone;    // the mask it would have without the launcher's default; `now` if the user has bound it
  int quota = 0;  // cores that the container's CPU quota is worth, if less than the mask has; 0: no such quota
};

// The CPUs of all ranks. Collective.
std::vector<RankCpus> gather_cpus(Communicator& communicator, const std::string& own_host);

// Whether the host of that rank has more ranks than cores they may use.
bool crowded(std::span<const RankCpus> ranks, int rank);

struct CoreShare {
  Cpus from;      // the CPUs that are shared
  Cpus cpus;      // the part of this rank; all of `from` if there are more ranks than CPUs
  Cpus packages;  // the CPUs of `from` in the packages of `cpus`; the rank is bound to them
  int ranks = 1;  // number of ranks that share them
};

// The place of a CPU in the machine. Ranks get neighbouring CPUs, in the order of these places.
struct Place {
  int64_t package = 0, core = 0;
  auto operator<=>(const Place&) const = default;
};

// The share of a rank. `places`: the place of each CPU by its number; a CPU that is not in the list counts as a core of the first package.
CoreShare core_share(std::span<const RankCpus> ranks, int rank, const std::vector<Place>& places = {});

}  // namespace detail
}  // namespace weft
