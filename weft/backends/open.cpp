#include "weft/backends/open.h"

#include "weft/backends/cpu/cpu_device.h"
#include "weft/base/check.h"

namespace weft {

std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  if (name == "cpu") return cpu::open_device(options);
  for (const DeviceEntry& entry : list_devices())
    if (entry.name == name) fail(ErrorCode::unsupported, "open_device", "device '", name, "' is not available: ", entry.reason);
  fail(ErrorCode::invalid_argument, "open_device", "unknown device '", name, "', expected cpu, cuda or metal");
}

std::vector<DeviceEntry> list_devices() {
  return {{"cpu", true, ""},
          {"cuda", false, "this version has no CUDA backend yet"},
          {"metal", false, "this version has no Metal backend yet"}};
}

}  // namespace weft
