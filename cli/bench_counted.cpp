#include "cli/bench_counted.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "weft/backends/metal/metal_device.h"
#include "weft/backends/open.h"
#include "weft/base/check.h"
#include "weft/spec/runner.h"

namespace weft::cli {
namespace {

// Limits of a counted case; the largest case of each kernel within them is taken. Small cases tell little about bytes, large ones take
// long.
constexpr double kMostBytes = 1e7, kMostFlops = 6e7;

struct Chosen {
  spec::Case spec_case;
  Cost cost;
};

// Chooses one case per op, variant and dtype, and one per elementwise function.
std::map<std::string, Chosen> choose(const spec::Registry& registry, const CountedOptions& options, Device& device) {
  std::map<std::string, Chosen> chosen;
  for (const auto* list : {&registry.cases(), &registry.benches(), &registry.gpu_benches(), &registry.counted()})
    for (const spec::Case& c : *list) {
      const std::string dtype(name(c.dtype)), key = join(c.op, ".", c.variant, "/", dtype);
      if (!options.selection.takes(c.op, dtype, join(key, "/", c.name))) continue;
      if (c.variant == "ready" || c.variant == "function" || c.variant == "random")
        continue;  // overhead, accuracy and fuzz cases: not kernels of a model
      const spec::Problem problem = c.make();
      int64_t bytes = 0;
      for (const spec::Operand& o : problem.operands()) bytes += o.shape.numel() * size_of(o.dtype);
      if (!problem.cost || double(bytes) > kMostBytes) continue;
      spec::Bound bound;
      for (const spec::Operand& o : problem.operands()) bound.add(o.name, Tensor::empty(device, o.shape, o.dtype));
      const Cost cost = problem.cost(bound);
      const auto found = chosen.find(key);
      if (cost.bytes <= kMostBytes && cost.flops <= kMostFlops && (found == chosen.end() || cost.bytes > found->second.cost.bytes))
        chosen[key] = {c, cost};
    }
  return chosen;
}

metal::Counters count(const spec::Case& c, Device& device) {
  const spec::Problem problem = c.make();
  const spec::Bound bound = spec::upload(problem, problem.generate(1), device);
  metal::Gpu& gpu = metal::gpu_of(device);
  device.synchronize();
  gpu.reset_counters();
  problem.run(device.stream(), bound);
  device.synchronize();
  return gpu.counters();
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
    const metal::Counters c = count(chosen.spec_case, *device);
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
