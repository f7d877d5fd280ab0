#include "bench/train.h"

#include "bench/between.h"
#include "bench/timing.h"
#include "bench/training.h"
#include "weft/backends/counting/counting_device.h"

namespace weft::bench {
namespace {

constexpr int kProfiled = 3;  // steps

// The costs of a step by op.
OpCosts count_step(const TrainShape& shape, int threads) {
  const auto device = counting::open_device(threads);
  Training training(shape, *device, true);
  counting::counts(*device).reset();
  training.step();
  return counting::counts(*device).kernels();
}

double flops_of_products_and_attention(const OpCosts& costs) {
  double flops = 0;
  for (const auto& [op, count] : costs)
    if (op == "matmul" || op.starts_with("causal_attention")) flops += count.cost.flops;
  return flops;
}

}  // namespace

TrainResult measure_training(const TrainShape& shape, Device& device, Ceilings& ceilings, int threads) {
  const bool dot = shape.dtype == DType::bf16 && ceilings.measure(Ceiling::bf16_dot, 0) > 0;
  const Ceiling ceiling = dot ? Ceiling::bf16_dot : Ceiling::fma;
  TrainResult result{.dtype = std::string(name(shape.dtype)),
                     .ceiling = std::string(name(ceiling)),
                     .tokens = shape.sequences * shape.tokens,
                     .breakdown = {}};
  const OpCosts costs = count_step(shape, threads);
  result.flops = flops_of_products_and_attention(costs);
  Training training(shape, device, false);
  measure_between(
      result, [&] { return result.flops / ceilings.measure(ceiling, 0); }, [&] { return median_time([&] { training.step(); }, 1.0); });
  result.disturbed |= result.ratio > 1;  // no step exceeds the peak: other processes disturbed the measurements
  result.peak = result.flops / result.seconds / result.ratio;
  result.breakdown = break_down(device, kProfiled, costs, [&] { training.step(); });
  return result;
}

}  // namespace weft::bench
