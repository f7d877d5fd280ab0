#include "cli/bench_counted.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/counted.h"
#include "cli/command.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"

namespace weft::cli {
namespace {

struct Chosen {
  spec::Case spec_case;
  Cost cost;
};

// The largest countable case of each kernel, since small ones say little about bytes. Kernels are keyed by op, variant and dtype.
std::map<std::string, Chosen> choose(const spec::Registry& registry, const CountedOptions& options, Device& device) {
  std::map<std::string, Chosen> chosen;
  for (const auto* list : {&registry.cases(), &registry.benches(), &registry.gpu_benches(), &registry.counted()})
    for (const spec::Case& c : *list) {
      const std::string dtype(name(c.dtype)), key = join(c.op, ".", c.variant, "/", dtype);
      if (!options.selection.takes(c.op, dtype, join(key, "/", c.name)) || !bench::has_kernel(c)) continue;
      const std::optional<Cost> cost = bench::countable_cost(c.make(), device);
      if (!cost) continue;
      const auto found = chosen.find(key);
      if (found == chosen.end() || cost->bytes > found->second.cost.bytes) chosen[key] = {c, *cost};
    }
  return chosen;
}

}  // namespace

int bench_counted(const CountedOptions& options, const spec::Registry& registry) {
  const auto device = open_device("metal-sim:counting");
  const std::map<std::string, Chosen> kernels = choose(registry, options, *device);
  if (kernels.empty()) options.selection.fail_empty("bench");
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  if (!options.json) {
    std::printf("Counted on a simulated GPU, relative to the minimum that the op must move and compute (no figure is a time)\n\n");
    std::printf("%-36s %-34s %11s %8s %11s %9s %9s %8s\n", "kernel", "case", "bytes", "of min", "threadgroup", "barriers", "matrix",
                "launches");
  }
  for (const auto& [key, chosen] : kernels) {
    const metal::Counters c = bench::count(chosen.spec_case.make(), *device);
    check(c.counted, "bench", "device ", device->name(), " has no counters");
    const double bytes = double(c.device_read + c.device_written), ratio = bytes / std::max(1.0, chosen.cost.bytes);
    const double share = chosen.cost.flops > 0 ? 2.0 * double(c.matrix_multiply_adds) / chosen.cost.flops : 0;
    list.push_back({{"kernel", key},
                    {"case", chosen.spec_case.name},
                    {"op", chosen.spec_case.op},
                    {"variant", chosen.spec_case.variant},
                    {"read", c.device_read},
                    {"written", c.device_written},
                    {"least_bytes", chosen.cost.bytes},
                    {"of_least", ratio},
                    {"threadgroup_bytes", c.threadgroup_bytes},
                    {"barriers", c.barriers},
                    {"threads", c.threads},
                    {"dispatches", c.dispatches},
                    {"matrix_multiply_adds", c.matrix_multiply_adds},
                    {"flops", chosen.cost.flops},
                    {"matrix_share", share}});
    if (!options.json) {
      std::printf("%-36s %-34s %11.0f %8.3f %11ld %9ld %9.2f %8ld\n", key.c_str(), chosen.spec_case.name.c_str(), bytes, ratio,
                  long(c.threadgroup_bytes), long(c.barriers), share, long(c.dispatches));
      std::fflush(stdout);
    }
  }
  if (options.json) std::printf("%s\n", nlohmann::ordered_json{{"device", device->name()}, {"kernels", list}}.dump(2).c_str());
  return kOk;
}

}  // namespace weft::cli
