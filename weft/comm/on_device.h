// NVIDIA GPUs as ranks of a run: which GPU a rank uses, and messages between their memories by NCCL.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "weft/comm/communicator.h"

namespace weft {

// A communicator that moves the memory of `device` by NCCL and host memory by `host`: if the device is an NVIDIA GPU, there are several
// ranks and NCCL can be loaded on all of them. Otherwise `host` itself, which copies device memory through the host.
//
// Collective. Throws, in rank 0 only, if two ranks have the same GPU (NCCL_MULTI_RANK_GPU_ENABLE=1 allows it) or different versions of
// NCCL; the others wait to be ended. The result keeps the device alive. Messages that are not done within `timeout` end all ranks with a
// message that names those that do not answer.
std::unique_ptr<Communicator> on_device(std::unique_ptr<Communicator> host, Device& device,
                                        std::chrono::seconds timeout = std::chrono::seconds(600));

// Name of the GPU for a rank that is number `local_rank` of `local_size` on its host: "cuda:2". Throws, naming both numbers, if there are
// more ranks than GPUs. With NCCL_MULTI_RANK_GPU_ENABLE=1 (NCCL 2.30 or newer; for tests) ranks share GPUs in turn.
std::string cuda_device_of(int local_rank, int local_size);

// NCCL's version ("2.30.7"), or why there is none; loads the library.
std::string nccl_version_text();

}  // namespace weft
