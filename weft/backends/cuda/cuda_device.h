// An NVIDIA GPU as a device: memory from cudaMalloc through the pool, one stream, kernels in weft::cuda.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "weft/device/device.h"

namespace weft::cuda {

// Names of the GPUs that can be opened; if there are none, `why` says what is missing.
struct Inventory {
  std::vector<std::string> devices;  // "cuda:0", ...
  std::string why;
};
Inventory inventory();

std::shared_ptr<Device> open_device(int index, const DeviceOptions& options);

// The same GPU with addresses instead of memory and without work: launches allocate from the pool, workspace included, what they would on
// the GPU, and everything downloaded is zeros.
std::shared_ptr<Device> open_planned(int index);

// The op table (table.cpp).
const Kernels& kernels();

}  // namespace weft::cuda
