#include "bench/measure.h"

#include <algorithm>
#include <cmath>

#include "weft/backends/cpu/system_memory.h"
#include "weft/base/check.h"
#include "weft/spec/runner.h"
#include "weft/tile/cpu/caches.h"

namespace weft::bench {
namespace {

// Problems up to this many elements are generated as in a check; larger ones repeat a block of random values.
constexpr int64_t kDrawnWhole = int64_t(4) << 20;
constexpr int64_t kMostCopies = 512;
constexpr double kSteady = 0.10;
constexpr int kMostAttempts = 3;

// Outputs stay uninitialised; inputs repeat a block of values.
spec::Bound allocate_large(const spec::Problem& problem, Device& device) {
  constexpr int64_t kDrawnAtOnce = 65536;
  spec::Bound bound;
  for (const spec::Operand& operand : problem.operands()) {
    Tensor tensor = Tensor::empty(device, operand.shape, operand.dtype);
    if (operand.role != spec::Role::output) {
      const int64_t n = operand.shape.numel(), item = size_of(operand.dtype);
      spec::Problem block;
      block.input("block", operand.dtype, {std::min(n, kDrawnAtOnce)}, operand.fill);
      const spec::Bound sample = spec::upload(block, block.generate(1), device);
      std::vector<char> bytes(size_t(sample.tensor("block").numel() * item));
      sample.tensor("block").read_bytes(operand.dtype, bytes.data(), int64_t(bytes.size()));
      const Tensor flat = tensor.reshape({n});
      for (int64_t i = 0; i < n; i += kDrawnAtOnce) {
        const int64_t end = std::min(n, i + kDrawnAtOnce);
        flat.part(0, i, end).write_bytes(operand.dtype, bytes.data(), (end - i) * item);
      }
    }
    bound.add(operand.name, tensor);
  }
  return bound;
}

// The same values in other memory.
spec::Bound duplicate(const spec::Problem& problem, const spec::Bound& bound, Device& device) {
  spec::Bound other;
  for (const spec::Operand& operand : problem.operands()) {
    const View& from = bound.tensor(operand.name).view();
    check(from.contiguous(), "bench", operand.name, " must be contiguous to be copied");
    std::vector<char> bytes(size_t(from.numel() * size_of(from.dtype)));
    device.download(bytes.data(), *from.buffer, from.offset, int64_t(bytes.size()));
    other.add(operand.name, Tensor::from_bytes(device, from.shape, from.dtype, bytes.data(), int64_t(bytes.size())));
  }
  return other;
}

// The work of a case relative to one ceiling.
struct Need {
  Ceiling ceiling;
  double amount, working_set;
};

double largest_operand(const spec::Problem& problem) {
  double most = 0;
  for (const spec::Operand& operand : problem.operands()) most = std::max(most, double(operand.shape.numel() * size_of(operand.dtype)));
  return most;
}

std::vector<Need> needs(const Target& target, const spec::Problem& problem, const spec::Bound& bound, const Cost& cost) {
  std::vector<Ceiling> ceilings = target.ceilings;
  if (ceilings.empty()) ceilings = {Ceiling::fma, Ceiling::copy};
  std::vector<Need> list;
  for (Ceiling ceiling : ceilings) switch (ceiling) {
      case Ceiling::fma:
      case Ceiling::bf16_dot: list.push_back({ceiling, cost.flops, 0}); break;
      case Ceiling::exp: list.push_back({ceiling, double(bound.tensor(std::string(target.exps_of)).numel()), 0}); break;
      case Ceiling::copy:
      case Ceiling::triad: list.push_back({ceiling, cost.bytes, cost.bytes}); break;
      case Ceiling::read:
      case Ceiling::read_small:  // memory like that of the operands
        list.push_back({largest_operand(problem) < double(cpu::SystemMemory::kHugeFrom) ? Ceiling::read_small : Ceiling::read, cost.bytes,
                        std::max(cost.bytes, cpu::kBenchOutOfCache)});
    }
  return list;
}

// The smallest time that each ceiling allows.
std::vector<double> least_times(const std::vector<Need>& list, Ceilings& ceilings) {
  std::vector<double> times;
  for (const Need& need : list) times.push_back(need.amount > 0 ? need.amount / ceilings.measure(need.ceiling, need.working_set) : 0);
  return times;
}

// The device time of one launch. Replayed: the launches on all sets of operands are one graph.
double seconds_of(const spec::Problem& problem, const std::vector<spec::Bound>& turns, Device& device, bool replayed) {
  Stream& stream = device.stream();
  if (!replayed || !stream.captures()) {
    size_t turn = 0;
    return median_of([&] {
      // A GPU still runs the previous turn while the host launches the timed one: events measure device time only.
      if (device.dialect() != Dialect::c) problem.run(stream, turns[turn++ % turns.size()]);
      const spec::Bound& operands = turns[turn++ % turns.size()];
      return stream.seconds_of([&] { problem.run(stream, operands); });
    });
  }
  const auto all = [&] {
    for (const spec::Bound& operands : turns) problem.run(stream, operands);
  };
  all();
  const std::unique_ptr<Graph> graph = stream.capture(all);
  return median_of([&] { return stream.seconds_of([&] { graph->replay(); }) / double(turns.size()); });
}

}  // namespace

spec::Bound materialise(const spec::Problem& problem, Device& device) {
  int64_t elements = 0;
  for (const spec::Operand& operand : problem.operands()) elements += operand.shape.numel();
  return elements <= kDrawnWhole ? spec::upload(problem, problem.generate(1), device) : allocate_large(problem, device);
}

Result measure(const spec::Case& c, const spec::Problem& problem, const spec::Bound& bound, Device& device, Ceilings& ceilings) {
  const Target target = device.dialect() == Dialect::c ? target_of(c) : gpu_target_of(c);
  Result result{.op = c.op,
                .variant = c.variant,
                .name = c.name,
                .dtype = std::string(name(c.dtype)),
                .ceiling = "",
                .cost = problem.cost(bound),
                .wanted = target.wanted,
                .wanted_rate = target.wanted_rate,
                .in_table = target.in_table};
  std::vector<spec::Bound> turns = {bound};
  const int64_t copies =
      target.cold ? std::clamp(int64_t(std::ceil(cpu::kBenchOutOfCache / result.cost.bytes)), int64_t(2), kMostCopies) : 1;
  while (int64_t(turns.size()) < copies) turns.push_back(duplicate(problem, bound, device));

  const std::vector<Need> list = needs(target, problem, bound, result.cost);
  for (result.attempts = 1;; ++result.attempts) {
    const std::vector<double> before = least_times(list, ceilings);
    result.seconds = seconds_of(problem, turns, device, target.replayed);
    const std::vector<double> after = least_times(list, ceilings);
    double least = -1;
    result.disturbed = false;
    for (size_t i = 0; i < list.size(); ++i) {
      const double mean = (before[i] + after[i]) / 2;
      if (mean <= least) continue;
      least = mean;
      result.disturbed = std::abs(before[i] - after[i]) > kSteady * std::min(before[i], after[i]);
      result.ceiling = name(list[i].ceiling);
    }
    result.ratio = least / result.seconds;
    if (!result.disturbed || result.attempts == kMostAttempts) return result;
  }
}

}  // namespace weft::bench
