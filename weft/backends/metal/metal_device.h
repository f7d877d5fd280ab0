// An Apple GPU as a device, or the simulator that stands for one: memory that both host and GPU see, one stream, kernels in
// weft::metal. Everything here is above the seam and so the same code for both.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/device/device.h"
#include "weft/tile/metal/seam.h"

namespace weft::metal {

std::shared_ptr<Device> make_device(std::string name, std::unique_ptr<Gpu> gpu, const DeviceOptions& options);

// One with no memory and no work behind it (planned_gpu.h): launchers do what they do, and the pool tells what they took.
std::shared_ptr<Device> open_planned();

// The GPU behind a device made here: its counters.
Gpu& gpu_of(Device& device);

// The op table (table.cpp).
const Kernels& kernels();

}  // namespace weft::metal
