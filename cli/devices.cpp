// weft devices: lists the devices of this build and this machine.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "weft/backends/open.h"
#include "weft/base/error.h"

namespace weft::cli {
namespace {

double gib(int64_t bytes) { return double(bytes) / double(int64_t(1) << 30); }

// Opens a device. Empty if there is none or it cannot be opened (another process holds it); entry.reason then says why.
std::shared_ptr<Device> opened(DeviceEntry& entry) {
  if (!entry.available) return nullptr;
  try {
    return open_device(entry.name);
  } catch (const Error& error) {
    entry = {entry.name, false, error.what()};
    return nullptr;
  }
}

int run(bool json) {
  std::vector<DeviceEntry> devices = list_devices();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (DeviceEntry& entry : devices) {
    const auto device = opened(entry);
    if (!device) {
      if (json)
        list.push_back({{"name", entry.name}, {"available", false}, {"reason", entry.reason}});
      else
        std::printf("%-9s not available: %s\n", entry.name.c_str(), entry.reason.c_str());
      continue;
    }
    const MemoryInfo memory = device->memory();
    const std::string dialect(name(device->dialect()));
    if (json)
      list.push_back(
          {{"name", device->name()},
           {"available", true},
           {"description", device->description()},
           {"dialect", dialect},
           {"memory", {{"total", memory.total}, {"free", memory.free}, {"in_use", memory.in_use}, {"high_water", memory.high_water}}}});
    else
      std::printf("%-9s %s, dialect %s, memory %.1f GiB, %.1f GiB free\n", device->name().c_str(), device->description().c_str(),
                  dialect.c_str(), gib(memory.total), gib(memory.free));
  }
  if (json) std::printf("%s\n", list.dump(2).c_str());
  return kOk;
}

}  // namespace

Run add_devices(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "List the devices, their hardware and their memory");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  return [json] { return run(*json); };
}

}  // namespace weft::cli
