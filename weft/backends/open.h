// Opening devices by name. open.cpp alone knows which backends a build has.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/device/device.h"

namespace weft {

// "cpu", "cuda" (the first GPU), "cuda:1", ..., "metal"; and "metal-sim", where Metal kernels run on a simulator, or
// "metal-sim:MODE", in one of its modes: random, flush, checked or counting (docs/metal.md). Throws `unsupported` for a device that this
// build or machine does not have, saying why.
std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options = {});

// A device like that one with no memory and no work behind it, whose pool tells what would be taken there.
std::shared_ptr<Device> open_planned(std::string_view name, const DeviceOptions& options = {});

struct DeviceEntry {
  std::string name;
  bool available;
  std::string reason;  // why it is not available
};

// The op table of a backend ("cpu", "cuda", "metal"), on whatever machine; null where this build does not have it.
const Kernels* kernels_of(std::string_view backend);

// Every backend of the contract, whether this build and machine have it or not.
std::vector<DeviceEntry> list_devices();

}  // namespace weft
