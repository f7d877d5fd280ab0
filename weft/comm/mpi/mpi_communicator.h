// The ranks that mpirun or srun started. All messages are non-blocking point-to-point ones in host memory; device memory of a device other
// than the CPU is copied through the host.
#pragma once

#include <memory>

#include "weft/comm/launch.h"

namespace weft::mpi {

std::unique_ptr<Communicator> open(const Launch& launch, const CommunicatorOptions& options);

// "Open MPI 4.1.4". Loads the library; throws if it cannot.
std::string version();

}  // namespace weft::mpi
