#include "weft/backends/open.h"

#include <charconv>
#include <optional>

#include "weft/backends/counting/counting_device.h"
#include "weft/backends/cpu/cpu_device.h"
#include "weft/base/check.h"
#ifdef WEFT_HAS_CUDA
#include "weft/backends/cuda/cuda_device.h"
#endif
#ifdef WEFT_HAS_METAL
#include "weft/backends/metal/metal_device.h"
#endif
#ifdef WEFT_METAL_APPLE
#include "weft/backends/metal/apple/apple_gpu.h"
#endif
#ifdef WEFT_METAL_SIM
#include "weft/backends/metal/sim/simulator.h"
#endif

namespace weft {
namespace {

#ifdef WEFT_HAS_CUDA
// "cuda" is the first GPU, "cuda:N" the GPU of that index.
std::optional<int> cuda_index(std::string_view name) {
  if (name == "cuda") return 0;
  int index = 0;
  if (!name.starts_with("cuda:")) return {};
  const auto [end, error] = std::from_chars(name.data() + 5, name.data() + name.size(), index);
  return error == std::errc() && end == name.data() + name.size() ? std::optional(index) : std::nullopt;
}
#endif

#ifdef WEFT_METAL_SIM
// "metal-sim" runs threads in order; "metal-sim:MODE" selects another mode.
std::optional<metal::SimMode> simulator_mode(std::string_view name) {
  using metal::SimMode;
  constexpr std::pair<std::string_view, SimMode> kModes[] = {{"metal-sim", SimMode::forward},
                                                             {"metal-sim:random", SimMode::random},
                                                             {"metal-sim:flush", SimMode::flush},
                                                             {"metal-sim:checked", SimMode::checked},
                                                             {"metal-sim:counting", SimMode::counting}};
  for (const auto& [mode_name, mode] : kModes)
    if (name == mode_name) return mode;
  return {};
}
#endif

// Reason why there is no Apple GPU; empty if there may be one.
std::string why_no_metal() {
#if defined(WEFT_METAL_APPLE)
  return metal::why_no_apple_gpu();
#else
  return "Apple GPUs are available on macOS only";
#endif
}

std::string why_no_simulator() {
#if defined(WEFT_METAL_SIM)
  try {
    metal::open_simulator(metal::SimMode::forward);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
#elif defined(WEFT_METAL_APPLE)
  return "this build runs Metal kernels on the GPU";
#else
  return "this build has no Metal simulator (no clang++-19 was found, or WEFT_METAL_SIM is OFF)";
#endif
}

}  // namespace

std::shared_ptr<Device> open_device(std::string_view name, const DeviceOptions& options) {
  if (name == "cpu") return cpu::open_device(options);
#ifdef WEFT_HAS_CUDA
  if (const std::optional<int> index = cuda_index(name)) return cuda::open_device(*index, options);
#endif
#ifdef WEFT_METAL_APPLE
  if (name == "metal") return metal::make_device("metal", metal::open_apple_gpu(), options);
#endif
#ifdef WEFT_METAL_SIM
  if (const std::optional<metal::SimMode> mode = simulator_mode(name))
    return metal::make_device(std::string(name), metal::open_simulator(*mode), options);
#endif
  for (const DeviceEntry& entry : list_devices())
    if (entry.name == name) fail(ErrorCode::unsupported, "open_device", "device '", name, "' is not available: ", entry.reason);
  fail(ErrorCode::invalid_argument, "open_device", "unknown device '", name, "', expected cpu, cuda (or cuda:1, ...), metal or metal-sim");
}

std::shared_ptr<Device> open_planned([[maybe_unused]] std::string_view name, const DeviceOptions& options) {
#ifdef WEFT_HAS_CUDA
  if (const std::optional<int> index = cuda_index(name)) return cuda::open_planned(*index);
#endif
#ifdef WEFT_HAS_METAL
  if (name.starts_with("metal")) return metal::open_planned();
#endif
  return counting::open_device(options.threads);
}

const Kernels* kernels_of(std::string_view backend) {
  if (backend == "cpu") return &cpu::kernels();
#ifdef WEFT_HAS_CUDA
  if (backend == "cuda") return &cuda::kernels();
#endif
#ifdef WEFT_HAS_METAL
  if (backend == "metal") return &metal::kernels();
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
  devices.push_back({"cuda", false, "this build has no CUDA backend (no CUDA 13 compiler was found, or WEFT_CUDA is OFF)"});
#endif
  for (const auto& [name, why] : {std::pair{"metal", why_no_metal()}, {"metal-sim", why_no_simulator()}})
    devices.push_back({name, why.empty(), why});
  return devices;
}

}  // namespace weft
