#include "weft/spec/problem.h"

#include "weft/base/check.h"

namespace weft::spec {

Fill normal(double stddev) {
  return [=](PhiloxStream& random, int64_t) { return stddev * random.normal(); };
}
Fill uniform(double low, double high) {
  return [=](PhiloxStream& random, int64_t) { return low + (high - low) * random.uniform(); };
}
Fill ids(int64_t count) {
  return [=](PhiloxStream& random, int64_t) { return double(random.below(count)); };
}
Fill constant(double value) {
  return [=](PhiloxStream&, int64_t) { return value; };
}
Fill listed(std::vector<double> values) {
  return [values = std::move(values)](PhiloxStream&, int64_t i) { return values[size_t(i) % values.size()]; };
}
Fill sprinkle(Fill fill, int64_t period, int64_t at, double value) {
  return [=](PhiloxStream& random, int64_t i) {
    const double drawn = fill(random, i);
    return i % period == at ? value : drawn;
  };
}

const Tensor& Bound::tensor(const std::string& name) const {
  auto found = tensors_.find(name);
  check(found != tensors_.end(), "spec", "no operand named '", name, "'");
  return found->second;
}

Problem& Problem::input(std::string name, DType dtype, Shape shape, Fill fill, Layout layout) {
  operands_.push_back({std::move(name), dtype, shape, Role::input, std::move(fill), layout, {}, {}});
  return *this;
}
Problem& Problem::output(std::string name, DType dtype, Shape shape, Layout layout) {
  operands_.push_back({std::move(name), dtype, shape, Role::output, {}, layout, {}, {}});
  return *this;
}
Problem& Problem::in_place(std::string name, DType dtype, Shape shape, Fill fill, Layout layout) {
  operands_.push_back({std::move(name), dtype, shape, Role::in_place, std::move(fill), layout, {}, {}});
  return *this;
}

Operand& Problem::find(const std::string& name) {
  for (Operand& operand : operands_)
    if (operand.name == name) return operand;
  fail(ErrorCode::invalid_argument, "spec", "no operand named '", name, "'");
}
Problem& Problem::given(const std::string& name, std::vector<double> values) {
  Operand& operand = find(name);
  check(int64_t(values.size()) == operand.shape.numel(), "spec", "golden input ", name, " has ", values.size(), " values for shape ",
        operand.shape);
  operand.given = std::move(values);
  return *this;
}
Problem& Problem::golden(const std::string& name, std::vector<double> values) {
  Operand& operand = find(name);
  check(int64_t(values.size()) == operand.shape.numel(), "spec", "golden output ", name, " has ", values.size(), " values for shape ",
        operand.shape);
  operand.golden = std::move(values);
  return *this;
}

Truth Problem::generate(uint64_t seed) const {
  Truth truth;
  uint32_t site = 0;
  for (const Operand& operand : operands_) {
    const size_t count = size_t(operand.shape.numel());
    Array array{operand.dtype, operand.shape, std::vector<double>(count), std::vector<double>(count), {}, false, {}};
    PhiloxStream random(seed, ++site);
    if (operand.role != Role::output)
      for (size_t i = 0; i < count; ++i) {
        const double value = operand.given.empty() ? operand.fill(random, int64_t(i)) : operand.given[i];
        array.v[i] = round_to(operand.dtype, value);
      }
    if (operand.role == Role::in_place) truth.add(result(operand.name), array);
    truth.add(operand.name, std::move(array));
  }
  if (prepare) {
    prepare(truth);
    for (const Operand& operand : operands_)
      if (operand.role != Role::output)
        for (double& value : truth[operand.name].v) value = round_to(operand.dtype, value);
  }
  return truth;
}

}  // namespace weft::spec
