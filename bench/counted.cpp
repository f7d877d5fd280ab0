#include "bench/counted.h"

namespace weft::bench {
namespace {

constexpr double kMostBytes = 1e7, kMostFlops = 6e7;  // a second or two of simulation

}  // namespace

bool has_kernel(const spec::Case& c) { return c.variant != "ready" && c.variant != "function" && c.variant != "random"; }

std::optional<Cost> countable_cost(const spec::Problem& problem, Device& device) {
  int64_t bytes = 0;
  for (const spec::Operand& o : problem.operands()) bytes += o.shape.numel() * size_of(o.dtype);
  if (!problem.cost || double(bytes) > kMostBytes) return {};
  spec::Bound shapes;
  for (const spec::Operand& o : problem.operands()) shapes.add(o.name, Tensor::empty(device, o.shape, o.dtype));
  const Cost cost = problem.cost(shapes);
  if (cost.bytes > kMostBytes || cost.flops > kMostFlops) return {};
  return cost;
}

metal::Counters count(const spec::Problem& problem, Device& device) {
  const spec::Bound bound = spec::upload(problem, problem.generate(1), device);
  metal::Gpu& gpu = metal::gpu_of(device);
  device.synchronize();
  gpu.reset_counters();
  problem.run(device.stream(), bound);
  device.synchronize();
  return gpu.counters();
}

}  // namespace weft::bench
