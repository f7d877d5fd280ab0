// One concrete problem for one op: its operands, how to launch it, its float64 reference, and the function that it
// differentiates. The same problem is checked, gradient-checked, timed and compared across thread counts.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/base/cost.h"
#include "weft/base/philox.h"
#include "weft/spec/truth.h"
#include "weft/tensor/tensor.h"

namespace weft::spec {

// A source of an input's values: element i, from the stream. See fills below.
using Fill = std::function<double(PhiloxStream&, int64_t i)>;

Fill normal(double stddev = 1.0);
Fill uniform(double low, double high);
Fill ids(int64_t count);  // integers in [0, count)
Fill constant(double value);
Fill listed(std::vector<double> values);  // these, in order, repeated
// `fill`, except that elements i with i % period == at are `value` (an infinity, a NaN, a pad id).
Fill sprinkle(Fill fill, int64_t period, int64_t at, double value);

enum class Layout {
  contiguous,
  padded_rows,  // seven elements between one row and the next, checked to stay untouched
};

enum class Role { input, output, in_place };  // in_place: has a value before the launch and another after

struct Operand {
  std::string name;
  DType dtype;
  Shape shape;
  Role role;
  Fill fill;
  Layout layout;
  std::vector<double> given;   // golden input values, instead of fill
  std::vector<double> golden;  // golden expected values, instead of the reference's
};

// The operands on a device, by name.
class Bound {
 public:
  View view(const std::string& name) const { return tensor(name).view(); }
  MutView mut(const std::string& name) const { return tensor(name).mut_view(); }
  const Tensor& tensor(const std::string& name) const;
  bool has(const std::string& name) const { return tensors_.contains(name); }
  // Args with every operand that it declares (weft/ops/operands.h) bound to the tensor of that name; without one it is absent.
  template <class Args>
  Args args() const {
    static constexpr auto kOperands = Args::operands();
    Args args{};
    for (const auto& operand : kOperands)
      if (const auto found = tensors_.find(operand.name); found != tensors_.end())
        operand.output ? void(args.*operand.output = found->second.mut_view()) : void(args.*operand.input = found->second.view());
    return args;
  }
  void add(const std::string& name, Tensor tensor) { tensors_[name] = std::move(tensor); }

 private:
  std::map<std::string, Tensor, std::less<>> tensors_;
};

// The op's cost(), which Problem::cost hides.
template <class Args>
Cost cost_of(const Args& args) {
  return cost(args);
}

class Problem {
 public:
  Problem& input(std::string name, DType dtype, Shape shape, Fill fill, Layout layout = Layout::contiguous);
  Problem& output(std::string name, DType dtype, Shape shape, Layout layout = Layout::contiguous);
  Problem& in_place(std::string name, DType dtype, Shape shape, Fill fill, Layout layout = Layout::contiguous);

  // Launches the op on views of the operands.
  std::function<void(Stream&, const Bound&)> run;

  // Sets run and cost: `op` is launched on the problem's tensors, bound by name; `set` fills in the numbers of Args. An input that
  // is no operand of the op is for the reference or the loss alone.
  template <class Args, class Set>
  Problem& launches(void (*op)(Stream&, const Args&), Set set) {
    for (const Operand& o : operands_)
      check(o.role == Role::input || std::ranges::any_of(Args::operands(), [&](const auto& declared) { return o.name == declared.name; }),
            "spec", "output ", o.name, " is no operand of ", Args::kOp);
    const auto args = [set](const Bound& bound) {
      Args result = bound.args<Args>();
      set(result);
      return result;
    };
    run = [=](Stream& stream, const Bound& bound) { op(stream, args(bound)); };
    cost = [=](const Bound& bound) { return cost_of(args(bound)); };
    return *this;
  }
  template <class Args>
  Problem& launches(void (*op)(Stream&, const Args&)) {
    return launches(op, [](Args&) {});
  }

  // Fills outputs of `truth` (values and bounds) from its inputs, in plain float64. For an in_place operand the
  // initial values stand under its name and the results go to result(name).
  std::function<void(Truth&)> reference;

  // For a backward op: the scalar of which it returns derivatives, in float64 from the same inputs (usually
  // <dy, forward(x)>), and which output is the derivative by which input: {{"x", "dx"}, {"w", "dw"}}.
  std::function<double(const Truth&)> loss;
  std::vector<std::pair<std::string, std::string>> derivatives;

  // Statistics that a forward pass saved and a backward op reads: computed from the other inputs in float64 before
  // they are rounded to their dtype.
  std::function<void(Truth&)> prepare;

  // The bytes and FLOPs of a launch.
  std::function<Cost(const Bound&)> cost;

  // Fixes operand `name` to these values (inputs), or its expected values (outputs), from golden data.
  Problem& given(const std::string& name, std::vector<double> values);
  Problem& golden(const std::string& name, std::vector<double> values);

  const std::vector<Operand>& operands() const { return operands_; }

  // Input values drawn from `seed` and rounded to their dtypes, outputs allocated and zero.
  Truth generate(uint64_t seed) const;

 private:
  Operand& find(const std::string& name);
  std::vector<Operand> operands_;
};

// The name in Truth under which an in_place operand's result is expected.
inline std::string result(const std::string& name) { return name + "'"; }

}  // namespace weft::spec
