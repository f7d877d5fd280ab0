#include "weft/backends/open.h"

#include <charconv>
#include <optional>

#include "weft/backends/cpu/cpu_device.h"
#include "weft/base/check.h"
#ifdef WEFT_HAS_CUDA
#include "weft/backends/cuda/cuda_device.h"
#endif

namespace weft {
namespace {

#ifdef WEFT_HAS_CUDA
// "cuda" is the first GPU, "cuda:N" the one of that number.
std::optional<int> cuda_index(std::string_view name) {
  if (name == "cuda") return 0;
  int index = 0;
  if (!name.starts_with("cuda:")) return {};
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), index);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(index) : std::nullopt;
}
#endif

}  // namespace

std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  if (name == "cpu") return cpu::open_device(options);
#ifdef WEFT_HAS_CUDA
  if (const std::optional<int> index = cuda_index(name)) return cuda::open_device(*index, options);
#endif
  for (const DeviceEntry& entry : list_devices())
    if (entry.name == name) fail(ErrorCode::unsupported, "open_device", "device '", name, "' is not available: ", entry.reason);
  fail(ErrorCode::invalid_argument, "open_device", "unknown device '", name, "', expected cpu, cuda (or cuda:1, ...) or metal");
}

const Kernels* kernels_of(std::string_view backend) {
  if (backend == "cpu") return &cpu::kernels();
#ifdef WEFT_HAS_CUDA
  if (backend == "cuda") return &cuda::kernels();
#endif
  return nullptr;
}

std::vector<DeviceEntry> list_devices() {
  std::vector<DeviceEntry> devices = {{"cpu", true, ""}};
#ifdef WEFT_HAS_CUDA
  const cuda::Inventory found = cuda::inventory();
  for (const std::string& name : found.devices) devices.push_back({name, true, ""});
  if (found.devices.empty()) devices.push_back({"cuda", false, found.why});
#else
  devices.push_back({"cuda", false, "this build has no CUDA backend (no CUDA 13 compiler was found)"});
#endif
  devices.push_back({"metal", false, "this version has no Metal backend yet"});
  return devices;
}

}  // namespace weft
