// The cores of one host, shared by the ranks that run there.
#pragma once

#include "weft/comm/communicator.h"

namespace weft {

// Binds this rank to its part of the cores that several ranks of this host have in common, unless the launcher has bound them already
// (`mpirun --bind-to core`, `srun --cpu-bind`), and returns the number of threads for DeviceOptions::threads: `threads` if it is not
// 0, else the cores of this rank (at least 1); alone: `threads`. Collective; to be called before the process starts threads.
int share_cores(Communicator& communicator, int threads);

}  // namespace weft
