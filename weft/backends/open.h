// Opens devices by name. Only open.cpp knows which backends a build has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/device/device.h"

namespace weft {

// "cpu", "cuda" (the first GPU), "cuda:1", ..., "metal"; and "metal-sim", which runs Metal kernels on a simulator, or "metal-sim:MODE" with
// MODE random, flush, checked or counting (docs/metal.md). Throws `unsupported`, with the reason, for a device that this build or machine
// lacks.
std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options = {});

// A device like that one without memory or work behind it: its pool reports what a run would allocate.
std::shared_ptr<Device> open_planned(std::string_view name, const DeviceOptions& options = {});

struct DeviceEntry {
  std::string name;
  bool available;
  std::string reason;  // why it is not available
};

// The op table of a backend ("cpu", "cuda", "metal"), on any machine; null if this build lacks it.
const Kernels* kernels_of(std::string_view backend);

// Lists every backend of the contract, whether this build and machine have it or not.
std::vector<DeviceEntry> list_devices();

}  // namespace weft
