// Messages between the memories of NVIDIA GPUs, by NCCL on a stream of their own.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "weft/comm/communicator.h"

namespace weft::nccl {

// NCCL's version, as in NCCL_VERSION_CODE. Throws `unsupported`, with the reason, if the library cannot be loaded.
int version();
std::string version_text(int version);  // "2.30.7"

// Connects the ranks of `host`, which goes on moving host memory. Collective. `device` is a CUDA device.
std::unique_ptr<Communicator> connect(std::unique_ptr<Communicator> host, Device& device, std::chrono::seconds timeout);

}  // namespace weft::nccl
