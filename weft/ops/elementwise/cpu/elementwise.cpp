#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/geometry.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/elementwise/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>

#include <hwy/cache_control.h>

#include "weft/ops/elementwise/cpu/machine.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Elements per task, whatever the thread count.
constexpr int64_t kTask = 32768;

struct alignas(64) Line {
  char bytes[64];
};

// The memory of one task, in one allocation: the program linked to its own cells, slots, and blocks that replace the last columns of a
// row. Most programs fit on the stack; a call on a small tensor should not wait for the allocator.
class Task {
 public:
  Task(const ElementwiseArgs& args, bool streaming)
      : args_(args), program_(args.compiled->program), operands_(size_t(program_.inputs + program_.outputs)) {
    const size_t code = program_.code.size(), cells = operands_ + size_t(program_.slots), scalars = program_.scalars.size();
    const auto lines = [](size_t bytes) { return (bytes + sizeof(Line) - 1) / sizeof(Line); };
    const size_t needed = lines(cells * kBlockBytes) + lines(code * sizeof(Link)) + lines(cells * sizeof(char*)) +
                          lines(operands_ * sizeof(char*)) + lines(operands_ * sizeof(int64_t)) + lines(scalars * sizeof(float));
    if (needed > kNear) far_.resize(needed);
    Line* at = needed > kNear ? far_.data() : near_;
    const auto carve = [&]<class T>(T*& cells_of, size_t count) {
      cells_of = reinterpret_cast<T*>(at);
      at += lines(count * sizeof(T));
    };
    carve(blocks_, cells * kBlockBytes);
    carve(links_, code);
    carve(address_, cells);
    carve(rest_, operands_);
    carve(advance_, operands_);
    carve(scalars_, scalars);

    for (size_t i = 0; i < cells; ++i) address_[i] = block(i);
    for (size_t i = 0; i < operands_; ++i) advance_[i] = kStep * size_of(view(i).dtype);
    for (size_t i = 0; i < scalars; ++i) {
      const expr::Scalar& s = program_.scalars[i];
      scalars_[i] = s.from == expr::Scalar::From::parameter ? args.parameters[size_t(s.index)] : s.value;
    }
    for (size_t i = 0; i < code; ++i) links_[i] = link(program_.code[i], i + 1 == code, streaming);
    machine_ = {links_, 0, int(operands_), program_.inputs, address_, advance_};
  }

  // Columns [first, last) of a row.
  void run(int64_t row, int64_t first, int64_t last) {
    for (size_t i = 0; i < operands_; ++i) {
      const Geometry::Operand& o = args_.geometry->operands[i];
      address_[i] = const_cast<char*>(data<char>(view(i))) + (args_.geometry->offset(i, row) + first * o.step) * size_of(view(i).dtype);
    }
    for (size_t i = 0; i < program_.scalars.size(); ++i)
      if (program_.scalars[i].from == expr::Scalar::From::input) scalars_[i] = value_at(size_t(program_.scalars[i].index));
    const int64_t columns = last - first, rest = columns % kStep;
    run_steps(machine_, columns / kStep);
    if (rest) run_rest(rest);
  }

 private:
  static constexpr size_t kBlockBytes = kStep * sizeof(float), kNear = 128;  // 8 KiB
  char* block(size_t i) const { return blocks_ + i * kBlockBytes; }

  const View& view(size_t operand) const {
    return operand < args_.inputs.size() ? args_.inputs[operand] : args_.outputs[operand - args_.inputs.size()];
  }

  float value_at(size_t input) const {
    float value = 0;
    dispatch<float, bf16, f16>(view(input).dtype, [&]<class T>() { value = float(*reinterpret_cast<const T*>(address_[input])); });
    return value;
  }

  Link link(const expr::Instruction& in, bool last, bool streaming) {
    Link link{nullptr, {}};
    for (int i = 0; i < 3; ++i)
      link.cell[i] = in.mode[i] == Mode::scalar ? static_cast<const void*>(&scalars_[in.operand[i]]) : &address_[in.operand[i]];
    switch (in.action) {
      case Action::compute: link.run = kHandlers[size_t(handler_index(in))]; break;
      case Action::load: link.run = load_block<float>; break;
      case Action::load_bf16: link.run = load_block<bf16>; break;
      case Action::load_f16: link.run = load_block<f16>; break;
      case Action::load_scalar:
        link.run = load_scalar;
        link.cell[0] = &scalars_[in.operand[0]];
        break;
      case Action::save: link.run = store_block<float, false>; break;
      case Action::store:
        dispatch<float, bf16, f16>(view(in.operand[0]).dtype, [&]<class T>() { link.run = store_handler<T>(last, streaming); });
    }
    return link;
  }

  // The last columns, fewer than a step, go through blocks of the task's own.
  void run_rest(int64_t columns) {
    for (size_t i = 0; i < operands_; ++i) {
      char* at = block(i);
      const int64_t item = size_of(view(i).dtype);
      const bool input = i < args_.inputs.size();
      if (input) std::memset(at, 0, size_t(kStep * item));
      if (input && args_.geometry->operands[i].step) std::memcpy(at, address_[i], size_t(columns * item));
      rest_[i] = std::exchange(address_[i], at);
    }
    run_steps(machine_, 1);
    for (size_t i = args_.inputs.size(); i < operands_; ++i) std::memcpy(rest_[i], block(i), size_t(columns * size_of(view(i).dtype)));
  }

  const ElementwiseArgs& args_;
  const expr::Program& program_;
  const size_t operands_;
  Line near_[kNear];
  std::vector<Line> far_;
  char* blocks_;
  Link* links_;
  char** address_;  // per operand and slot
  char** rest_;
  int64_t* advance_;
  float* scalars_;
  Machine machine_{};
};

// Whether outputs are stored non-temporally: the launch moves more than the caches hold and every row starts on a cache line. The
// bits are the same either way.
bool streams(const ElementwiseArgs& args) {
  int64_t bytes = 0;
  for (const View& in : args.inputs) bytes += in.numel() * size_of(in.dtype);
  bool aligned = true;
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    const MutView& out = args.outputs[i];
    bytes += out.numel() * size_of(out.dtype);
    aligned &= reinterpret_cast<uintptr_t>(data<char>(out)) % 64 == 0;
    for (int axis = 0; axis < args.geometry->axes; ++axis)
      aligned &= args.geometry->operands[args.inputs.size() + i].stride[axis] * size_of(out.dtype) % 64 == 0;
  }
  return aligned && bytes >= kLaunchOutOfCache;
}

}  // namespace

// Equation: outputs = f(inputs, parameters), element by element, f an expression as a program.
// Layout:   every operand [R, C] with strides between rows; an input may repeat its row, or have one value per row.
// Order:    tasks of 32 Ki elements by shape alone; elements are independent.
// Requires: unit stride within a row, an output that overlaps an input is exactly that input (the contract's).
// Traffic:  one read of each input, one write of each output; intermediate values stay in registers or in slots in L1.
void elementwise(Stream& stream, const ElementwiseArgs& args) {
  const Geometry& g = *args.geometry;
  if (g.rows == 0 || g.columns == 0) return;
  const bool streaming = streams(args);
  const int64_t pieces = ceil_div(g.columns, kTask), group = std::max<int64_t>(1, kTask / g.columns);
  parallel_for(ceil_div(g.rows, group) * pieces, threads(stream), [&](int64_t index) HWY_ATTR {
    Task task(args, streaming);
    const int64_t first = index % pieces * kTask, last = std::min(g.columns, first + kTask);
    const int64_t begin = index / pieces * group, end = std::min(g.rows, begin + group);
    for (int64_t row = begin; row < end; ++row) task.run(row, first, last);
    if (streaming) hwy::FlushStream();
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(elementwise, ElementwiseArgs)
#endif
