#include "weft/spec/runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "weft/base/check.h"

namespace weft::spec {
namespace {

constexpr int64_t kPadding = 7;

uint64_t hash(const void* data, size_t bytes, uint64_t seed = 0xcbf29ce484222325u) {  // FNV-1a
  const auto* p = static_cast<const uint8_t*>(data);
  for (size_t i = 0; i < bytes; ++i) seed = (seed ^ p[i]) * 0x100000001b3u;
  return seed;
}

uint64_t seed_of(const Case& c) {
  const std::string text = c.op + "." + c.variant + "/" + c.name;
  return hash(text.data(), text.size());
}

std::vector<uint8_t> to_bytes(DType dtype, const std::vector<double>& values) {
  std::vector<uint8_t> bytes(values.size() * size_t(size_of(dtype)));
  dispatch<float, bf16, f16, int32_t, uint32_t, uint8_t>(dtype, [&]<class T>() {
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
        value = T(float(values[i]));
      else if constexpr (std::is_same_v<T, float>)
        value = float(values[i]);
      else
        value = T(int64_t(values[i]));
      std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
    }
  });
  return bytes;
}

double element(DType dtype, const uint8_t* at) {
  double result = 0;
  dispatch<float, bf16, f16, int32_t, uint32_t, uint8_t>(dtype, [&]<class T>() {
    T value;
    std::memcpy(&value, at, sizeof(T));
    if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>)
      result = float(value);
    else
      result = double(value);
  });
  return result;
}

// The whole memory of an operand: its rows and, for padded rows, the padding between them.
struct Storage {
  Tensor whole;
  int64_t columns = 0, stride = 0, rows = 0;
};

Storage allocate(const Operand& operand, Device& device) {
  const int64_t columns = operand.shape.rank() ? operand.shape.back() : 1;
  int64_t rows = 1;
  for (int axis = 0; axis + 1 < operand.shape.rank(); ++axis) rows *= operand.shape[axis];
  const int64_t stride = columns + (operand.layout == Layout::padded_rows ? kPadding : 0);
  const Storage storage{Tensor::empty(device, Shape{rows, stride}, operand.dtype), columns, stride, rows};
  if (!device.pool().checked()) {  // which would have done this
    const std::vector<uint8_t> poison(size_t(storage.whole.numel() * size_of(operand.dtype)), Pool::kPoison);
    storage.whole.write_bytes(operand.dtype, poison.data(), int64_t(poison.size()));
  }
  return storage;
}

Tensor shaped(const Operand& operand, const Storage& storage) {
  if (operand.layout == Layout::contiguous) return storage.whole.reshape(operand.shape);
  check(operand.shape.rank() >= 1, "spec", "a padded operand needs an axis");
  Shape padded = operand.shape;
  padded[padded.rank() - 1] = storage.stride;
  return storage.whole.reshape(padded).part(-1, 0, storage.columns);
}

std::vector<uint8_t> raw(const Tensor& tensor) {
  std::vector<uint8_t> bytes(size_t(tensor.numel() * size_of(tensor.dtype())));
  tensor.read_bytes(tensor.dtype(), bytes.data(), int64_t(bytes.size()));
  return bytes;
}

void write(const Storage& storage, DType dtype, const std::vector<double>& values) {
  std::vector<uint8_t> bytes = raw(storage.whole);  // keeps the poison between rows
  const std::vector<uint8_t> packed = to_bytes(dtype, values);
  const int64_t item = size_of(dtype);
  for (int64_t r = 0; r < storage.rows; ++r)
    std::copy_n(packed.begin() + r * storage.columns * item, storage.columns * item, bytes.begin() + r * storage.stride * item);
  storage.whole.write_bytes(dtype, bytes.data(), int64_t(bytes.size()));
}

// All NaNs count as one: IEEE leaves sign and payload of a new NaN open, and x86 and ARM differ there.
uint64_t hash_values(DType dtype, const std::vector<uint8_t>& packed, uint64_t seed) {
  const size_t item = size_t(size_of(dtype));
  const uint32_t nan = ~0u;
  for (size_t at = 0; at < packed.size(); at += item) {
    const bool is_nan = is_float(dtype) && std::isnan(element(dtype, &packed[at]));
    seed = hash(is_nan ? static_cast<const void*>(&nan) : &packed[at], item, seed);
  }
  return seed;
}

// One launch with fresh operands, and its outputs, packed.
struct Run {
  std::map<std::string, std::vector<uint8_t>> outputs;  // by operand name, rows packed
  uint64_t digest = 0;
};

using Work = std::function<void(Stream&, const Bound&)>;

Run launch(const Problem& problem, const Truth& truth, Device& device, const Work& work) {
  std::map<std::string, Storage> storages;
  Bound bound;
  for (const Operand& operand : problem.operands()) {
    Storage storage = allocate(operand, device);
    if (operand.role != Role::output) write(storage, operand.dtype, truth[operand.name].v);
    bound.add(operand.name, shaped(operand, storage));
    storages[operand.name] = std::move(storage);
  }
  std::map<std::string, std::vector<uint8_t>> before;
  for (const auto& [name, storage] : storages) before[name] = raw(storage.whole);

  work(device.stream(), bound);
  device.synchronize();
  device.pool().verify();

  Run run;
  run.digest = 0xcbf29ce484222325u;
  for (const Operand& operand : problem.operands()) {
    const Storage& storage = storages[operand.name];
    const std::vector<uint8_t> after = raw(storage.whole);
    const int64_t item = size_of(operand.dtype);
    if (operand.role == Role::input) {
      check(after == before[operand.name], "check", "input ", operand.name, " was written to");
      continue;
    }
    std::vector<uint8_t> packed;
    for (int64_t r = 0; r < storage.rows; ++r) {
      const auto row = after.begin() + r * storage.stride * item;
      packed.insert(packed.end(), row, row + storage.columns * item);
      const auto gap = row + storage.columns * item, end = row + storage.stride * item;
      check(std::equal(gap, end, before[operand.name].begin() + (gap - after.begin())), "check", "output ", operand.name,
            " was written to between its rows, after row ", r);
    }
    run.digest = hash_values(operand.dtype, packed, run.digest);
    run.outputs[operand.name] = std::move(packed);
  }
  return run;
}

Run launch(const Problem& problem, const Truth& truth, Device& device) { return launch(problem, truth, device, problem.run); }

// The same as a captured graph. Replayed twice where no input is written.
Run launch_replayed(const Problem& problem, const Truth& truth, Device& device) {
  const auto& operands = problem.operands();
  const bool twice = std::none_of(operands.begin(), operands.end(), [](const Operand& o) { return o.role == Role::in_place; });
  return launch(problem, truth, device, [&](Stream& stream, const Bound& bound) {
    const std::unique_ptr<Graph> graph = stream.capture([&] { problem.run(stream, bound); });
    for (int i = 0; i < (twice ? 2 : 1); ++i) graph->replay();
    stream.synchronize();
  });
}

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

// The most that a case may move and compute on a simulated device, so that all of them take a few minutes; less where every
// access is checked.
constexpr double kSimulatedBytes = 2e6, kSimulatedFlops = 2e7, kCheckedShare = 0.1;

bool too_costly(const Problem& problem, Device& device) {
  if (!device.traits().simulated || !problem.cost) return false;
  Bound bound;
  for (const Operand& operand : problem.operands()) bound.add(operand.name, shaped(operand, allocate(operand, device)));
  const Cost cost = problem.cost(bound);
  const double share = device.traits().checks_accesses ? kCheckedShare : 1;
  return cost.bytes > share * kSimulatedBytes || cost.flops > share * kSimulatedFlops;
}

// Metal leaves it open whether numbers below the smallest normal one are zero. Where they are, no case has such inputs,
// and a result that small may be missing.
void flush_inputs(const Problem& problem, Truth& truth) {
  for (const Operand& operand : problem.operands()) {
    if (operand.role == Role::output || !is_float(operand.dtype)) continue;
    for (double& value : truth[operand.name].v)
      if (std::abs(value) < smallest_normal(DType::f32)) value = std::copysign(0.0, value);
  }
}

// True when `actual` is as close to `expected` as `bound` says; NaN and infinities must be met exactly.
bool within(double actual, double expected, double bound) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (std::isinf(expected)) return actual == expected;
  return std::abs(actual - expected) <= bound;  // false for NaN
}

double ratio(double error, double bound) { return error == 0 ? 0 : error / bound; }

void compare(const Operand& operand, const Array& expected, const std::vector<uint8_t>& actual, const Device& device, Outcome& outcome) {
  const bool takes_16_bits = device.dialect() == Dialect::cuda || (device.dialect() == Dialect::c && expected.narrow_on_cpu);
  const bool narrow = takes_16_bits && !expected.narrow.empty();
  const auto flushed = [&, flushing = device.traits().flushes](int64_t i) {
    return !flushing ? 0 : smallest_normal(DType::f32) + (expected.flushed.empty() ? 0 : expected.flushed[size_t(i)]);
  };
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double got = element(operand.dtype, actual.data() + i * size_of(operand.dtype));
    const double want = operand.golden.empty() ? expected[i] : operand.golden[size_t(i)];
    // Golden values were themselves rounded once, to the f32 they are stored in.
    const double stored = operand.golden.empty() || !std::isfinite(want) ? 0 : unit_roundoff(DType::f32) * std::abs(want);
    const double bound = expected.bound[size_t(i)] + (narrow ? expected.narrow[size_t(i)] : 0) + stored + flushed(i);
    const bool ok = within(got, want, bound);
    const double error = ok && !std::isfinite(want) ? 0 : std::abs(got - want);
    if (!ok || ratio(error, bound) >= ratio(outcome.error, outcome.bound)) {
      outcome.error = error;
      outcome.bound = bound;
    }
    if (!ok) {
      outcome.status = Status::failed;
      outcome.message = join(operand.name, "[", i, "] of shape ", operand.shape, " is ", got, ", expected ", want, " within ", bound);
      return;
    }
  }
}

// The reference must agree with golden values to the precision they were stored in (f32).
void compare_reference_with_golden(const Operand& operand, const Array& expected) {
  for (int64_t i = 0; i < expected.size(); ++i) {
    const double golden = operand.golden[size_t(i)], reference = expected[i];
    const double bound = 4 * unit_roundoff(DType::f32) * std::abs(golden) + expected.bound[size_t(i)] + 1e-9;
    check(within(reference, golden, bound), "check", "the float64 reference of ", operand.name, "[", i, "] is ", reference,
          ", golden data says ", golden);
  }
}

}  // namespace

std::string_view name(Status status) { return status == Status::passed ? "passed" : status == Status::failed ? "failed" : "skipped"; }

Bound upload(const Problem& problem, const Truth& truth, Device& device) {
  Bound bound;
  for (const Operand& operand : problem.operands()) {
    Storage storage = allocate(operand, device);
    if (operand.role != Role::output) write(storage, operand.dtype, truth[operand.name].v);
    bound.add(operand.name, shaped(operand, storage));
  }
  return bound;
}

Outcome run_case(const Case& c, const std::shared_ptr<Device>& device, const std::vector<std::shared_ptr<Device>>& others) {
  Outcome outcome{join(c.op, ".", c.variant, "/", device->name(), "/", c.dtype, "/", c.name),
                  c.op,
                  std::string(name(c.dtype)),
                  Status::passed,
                  0,
                  0,
                  "",
                  "",
                  c.ulps};
  try {
    const Problem problem = c.make();
    if (too_costly(problem, *device)) {
      outcome.status = Status::skipped;
      return outcome;
    }
    Truth truth = problem.generate(seed_of(c));
    if (device->traits().flushes) flush_inputs(problem, truth);
    problem.reference(truth);
    const Run run = launch(problem, truth, *device);
    outcome.digest = hex(run.digest);
    for (const Operand& operand : problem.operands()) {
      if (operand.role == Role::input) continue;
      const Array& expected = truth[operand.role == Role::in_place ? result(operand.name) : operand.name];
      if (!operand.golden.empty()) compare_reference_with_golden(operand, expected);
      compare(operand, expected, run.outputs.at(operand.name), *device, outcome);
      if (outcome.status == Status::failed) return outcome;
    }
    check(launch(problem, truth, *device).digest == run.digest, "check", "a second run gave other bits");
    if (device->stream().captures())
      check(launch_replayed(problem, truth, *device).digest == run.digest, "check", "other bits when captured and replayed");
    for (const auto& other : others)
      check(launch(problem, truth, *other).digest == run.digest, "check", "other bits on ", other->description(), " than on ",
            device->description());
  } catch (const Error& error) {
    outcome.status = error.code() == ErrorCode::unsupported ? Status::skipped : Status::failed;
    if (outcome.message.empty()) outcome.message = error.what();
  }
  return outcome;
}

Outcome run_gradient_check(const Case& c) {
  Outcome outcome{
      join(c.op, ".", c.variant, "/reference/", c.dtype, "/", c.name), c.op, std::string(name(c.dtype)), Status::passed, 0, 0, "", "", 0};
  const Problem problem = c.make();
  if (!problem.loss) {
    outcome.status = Status::skipped;
    return outcome;
  }
  Truth truth = problem.generate(seed_of(c));
  problem.reference(truth);
  PhiloxStream random(seed_of(c), 977);
  for (const auto& [input, derivative] : problem.derivatives) {
    const Array& expected = truth[truth.has(result(derivative)) ? result(derivative) : derivative];
    const int64_t count = truth[input].size();
    double scale = 0;
    for (double value : expected.v) scale = std::max(scale, std::abs(value));
    for (int sample = 0; sample < std::min<int64_t>(count, 16); ++sample) {
      const int64_t i = count <= 16 ? sample : random.below(count);
      double& x = truth[input].v[size_t(i)];
      const double before = x, step = 1e-5 * std::max(1.0, std::abs(before));
      x = before + step;
      const double above = problem.loss(truth);
      x = before - step;
      const double below = problem.loss(truth);
      x = before;
      const double difference = (above - below) / (2 * step);
      // Central differences err by step^2 f''' / 6 and by the loss's own rounding over the step.
      const double bound = 1e-6 * std::max(scale, std::abs(difference)) + 1e-15 * std::abs(above) / step + 1e-9;
      const double error = std::abs(difference - expected[i]);
      if (ratio(error, bound) >= ratio(outcome.error, outcome.bound)) {
        outcome.error = error;
        outcome.bound = bound;
      }
      if (!(error <= bound)) {
        outcome.status = Status::failed;
        outcome.message =
            join("reference ", derivative, "[", i, "] is ", expected[i], ", finite differences give ", difference, " within ", bound);
        return outcome;
      }
    }
  }
  return outcome;
}

Outcome run_rejection(const Rejection& rejection, const std::shared_ptr<Device>& device) {
  Outcome outcome{join(rejection.op, ".rejects/", device->name(), "/", rejection.name),
                  rejection.op,
                  "",
                  Status::failed,
                  0,
                  0,
                  "nothing was thrown",
                  "",
                  0};
  try {
    rejection.attempt(*device);
    device->synchronize();
    device->pool().verify();
  } catch (const Error& error) {
    const bool named = !error.where().empty() && std::strlen(error.what()) > error.where().size() + 2;
    outcome.status = named ? Status::passed : Status::failed;
    outcome.message = named ? "" : join("the message does not say what is wrong: ", error.what());
  }
  return outcome;
}

}  // namespace weft::spec
