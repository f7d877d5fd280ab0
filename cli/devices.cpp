// weft devices: lists the devices of this build and this machine, and what it has for runs of several processes.
#include <cctype>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "weft/backends/open.h"
#include "weft/base/error.h"
#include "weft/comm/launch.h"

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

// {"mpi": {"available": true, "version": "Open MPI 4.1.4"}, "nccl": {"available": false, "reason": ...}}
nlohmann::ordered_json communication(const std::vector<EngineEntry>& engines) {
  nlohmann::ordered_json by_name;
  for (const EngineEntry& engine : engines) {
    std::string name = engine.name;
    for (char& c : name) c = char(std::tolower(static_cast<unsigned char>(c)));
    by_name[name] = {{"available", engine.available}, {engine.available ? "version" : "reason", engine.text}};
  }
  return by_name;
}

int run(bool json) {
  std::vector<DeviceEntry> devices = list_devices();
  const std::vector<EngineEntry> engines = list_engines();
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
           {"memory", {{"total", memory.total}, {"free", memory.free}, {"in_use", memory.in_use}, {"high_water", memory.high_water}}},
           {"communication", communication(engines)}});
    else
      std::printf("%-9s %s, dialect %s, memory %.1f GiB, %.1f GiB free\n", device->name().c_str(), device->description().c_str(),
                  dialect.c_str(), gib(memory.total), gib(memory.free));
  }
  for (const EngineEntry& engine : engines)
    if (!json) std::printf("%-9s %s%s\n", engine.name.c_str(), engine.available ? "" : "not available: ", engine.text.c_str());
  if (json) std::printf("%s\n", list.dump(2).c_str());
  return kOk;
}

}  // namespace

Run add_devices(CLI::App& app) {
  CLI::App* command = app.add_subcommand("devices", "List the devices, their hardware and their memory; MPI and NCCL");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  return [json] { return run(*json); };
}

}  // namespace weft::cli
