// An Apple GPU as a device, or the simulator in its place: memory shared by host and GPU, one stream, kernels in weft::metal. Everything
// here is above the seam, so the same code serves both.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "weft/device/device.h"
#include "weft/tile/metal/seam.h"

namespace weft::metal {

std::shared_ptr<Device> make_device(std::string name, std::unique_ptr<Gpu> gpu, const DeviceOptions& options);

// A device without memory or work behind it (planned_gpu.h): launchers run as usual, and the pool reports what they allocated.
std::shared_ptr<Device> open_planned();

// The GPU behind such a device, for its counters.
Gpu& gpu_of(Device& device);

// The op table (table.cpp).
const Kernels& kernels();

}  // namespace weft::metal
