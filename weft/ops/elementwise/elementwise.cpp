#include "weft/ops/elementwise/elementwise.h"

#include <algorithm>
#include <numeric>

#include "weft/ops/copy/copy.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr const char* kOp = ElementwiseArgs::kOp;
constexpr std::initializer_list<DType> kFloats = {DType::f32, DType::bf16, DType::f16};

// The bytes a view spans, and how its rows repeat in them.
struct Extent {
  int64_t begin, end, row_bytes, pitch;
};
Extent extent_of(const View& view) {
  const int64_t item = size_of(view.dtype);
  int64_t last = 0, pitch = 0;
  for (int axis = 0; axis < view.rank(); ++axis) last += (view.shape[axis] - 1) * view.strides[axis];
  for (int axis = view.rank() - 2; axis >= 0 && pitch == 0; --axis)
    if (view.shape[axis] > 1) pitch = view.strides[axis] * item;
  return {view.offset, view.offset + (last + 1) * item, view.rank() ? view.shape.back() * item : item, pitch};
}

enum class Overlap { none, same, partial };

Overlap overlap(const View& a, const View& b) {
  if (a.buffer != b.buffer || a.numel() == 0 || b.numel() == 0) return Overlap::none;
  if (a.offset == b.offset && a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides) return Overlap::same;
  const Extent x = extent_of(a), y = extent_of(b);
  if (x.end <= y.begin || y.end <= x.begin) return Overlap::none;
  // Columns side by side in rows of the same pitch (the two halves of one projection) do not overlap.
  if (x.pitch > 0 && x.pitch == y.pitch) {
    const int64_t shift = ((y.begin - x.begin) % x.pitch + x.pitch) % x.pitch;
    if (shift >= x.row_bytes && x.pitch - shift >= y.row_bytes) return Overlap::none;
  }
  return Overlap::partial;
}

// True if some output overlaps an input.
bool check_overlaps(const Contract& contract, const ElementwiseArgs& args) {
  bool in_place = false;
  for (size_t o = 0; o < args.outputs.size(); ++o) {
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      if (!args.inputs[i]) continue;
      const Overlap found = overlap(args.outputs[o], args.inputs[i]);
      contract.require(found != Overlap::partial, "output ", o, " overlaps input ", i, " without lying exactly on it (shapes ",
                       args.outputs[o].shape, " and ", args.inputs[i].shape, ")");
      in_place |= found == Overlap::same;
    }
    for (size_t other = 0; other < o; ++other)
      contract.require(overlap(args.outputs[o], args.outputs[other]) == Overlap::none, "output ", o, " overlaps output ", other);
  }
  return in_place;
}

void check_operands(const Contract& contract, const Device& device, const ElementwiseArgs& args) {
  const ElementwiseFunction& f = *args.function;
  contract.require(int(args.inputs.size()) == f.inputs(), "the expression has ", f.inputs(), " inputs, got ", args.inputs.size());
  contract.require(int(args.outputs.size()) == f.outputs(), "the expression has ", f.outputs(), " outputs, got ", args.outputs.size());
  contract.require(int(args.parameters.size()) == f.parameters(), "the expression has ", f.parameters(), " parameters, got ",
                   args.parameters.size());
  const auto check_one = [&](const View& view, const char* role, size_t i) {
    if (!view || (&view.buffer->device() == &device && is_float(view.dtype))) return;  // builds the name only for an error
    contract.operand(join(role, " ", i).c_str(), view, kFloats);
  };
  for (size_t i = 0; i < args.inputs.size(); ++i) {
    contract.require(bool(args.inputs[i]) || !f.uses(int(i)), "input ", i, " is missing (an undefined tensor)");
    check_one(args.inputs[i], "input", i);
  }
  for (size_t i = 0; i < args.outputs.size(); ++i) {
    contract.require(bool(args.outputs[i]), "output ", i, " is missing (an undefined tensor)");
    check_one(args.outputs[i], "output", i);
  }
}

expr::Source source_of(const View& view, const Geometry::Operand& operand) {
  if (!view || operand.step == 0) return expr::Source::scalar;
  return view.dtype == DType::f32 ? expr::Source::f32 : view.dtype == DType::bf16 ? expr::Source::bf16 : expr::Source::f16;
}

expr::Signature signature_of(const ElementwiseArgs& args, const Geometry& g) {
  expr::Signature s;
  for (size_t i = 0; i < args.inputs.size(); ++i)
    s.inputs.push_back({args.inputs[i] ? args.inputs[i].dtype : DType::f32, args.inputs[i] && g.operands[i].step == 1});
  for (const MutView& out : args.outputs) s.outputs.push_back(out.dtype);
  s.axes = g.axes;
  return s;
}

}  // namespace

void elementwise(Stream& stream, const ElementwiseArgs& args) {
  const Contract contract(kOp, stream);
  check_operands(contract, stream.device(), args);
  const Geometry g = geometry(args.inputs, args.outputs);
  ElementwiseKernel key{.dialect = stream.device().dialect(), .sources = {}, .outputs = {}, .stores_last = check_overlaps(contract, args)};
  key.sources.reserve(args.inputs.size());
  for (const MutView& out : args.outputs) key.outputs.push_back(out.dtype);
  if (key.dialect == Dialect::c)
    for (size_t i = 0; i < args.inputs.size(); ++i) key.sources.push_back(source_of(args.inputs[i], g.operands[i]));
  else
    key.signature = signature_of(args, g);
  ElementwiseArgs launch = args;
  launch.geometry = &g;
  launch.compiled = &args.function->compiled(key);
  stream.device().kernels().elementwise(stream, launch);
}

Cost cost(const ElementwiseArgs& args) {
  Cost total{0, double(args.outputs[0].numel()) * double(args.function->graph().size() - args.function->inputs())};
  for (size_t i = 0; i < args.inputs.size(); ++i)
    if (args.function->uses(int(i))) total.bytes += bytes_of(args.inputs[i]);
  for (const MutView& out : args.outputs) total.bytes += bytes_of(out);
  return total;
}

namespace {

bool has_rows(const Tensor& x) {
  const int last = x.rank() - 1;
  return last < 0 || x.shape()[last] == 1 || x.strides()[last] == 1;
}

// Rows of unit stride, or a copy that has them.
Tensor as_rows_or_copy(const Tensor& x) { return has_rows(x) ? x : contiguous(x); }

// The inputs, with copies in place of those without unit-stride rows.
class RowInputs {
 public:
  explicit RowInputs(std::span<const Tensor* const> inputs) : list_(inputs.begin(), inputs.end()) {
    for (const Tensor*& input : list_) {
      if (!input->defined() || has_rows(*input)) continue;
      copies_.reserve(list_.size());  // their addresses stay
      input = &copies_.emplace_back(contiguous(*input));
    }
  }
  RowInputs(const RowInputs&) = delete;
  RowInputs& operator=(const RowInputs&) = delete;
  std::span<const Tensor* const> list() const { return list_; }

 private:
  std::vector<const Tensor*> list_;
  std::vector<Tensor> copies_;
};

void launch(const ElementwiseFunction& function, std::span<const Tensor> outputs, std::span<const Tensor* const> inputs,
            std::span<const float> parameters) {
  std::vector<View> in;
  std::vector<MutView> out;
  in.reserve(inputs.size());
  out.reserve(outputs.size());
  for (const Tensor* input : inputs) in.push_back(input->view());
  for (const Tensor& output : outputs) out.push_back(output.mut_view());
  elementwise(outputs[0].device().stream(), {.function = &function, .inputs = in, .outputs = out, .parameters = parameters});
}

// dx summed over the axes along which x was repeated, in x's shape and dtype.
Tensor sum_to(Tensor dx, const Shape& shape, DType dtype) {
  while (dx.rank() > shape.rank()) dx = reduce_sum(dx, 0);
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (dx.shape()[axis] == shape[axis]) continue;
    Shape kept = dx.shape();
    kept[axis] = 1;
    dx = reduce_sum(dx, axis).reshape(kept);
  }
  return cast(dx, dtype);
}

// Tensors kept for the backward of a call: only the inputs that the derivative reads.
struct Saved {
  std::shared_ptr<const ElementwiseFunction> function;
  std::vector<Kept> inputs;
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
  std::vector<float> parameters;
  Shape shape;  // of the outputs
};

std::vector<Tensor> gradients(const Saved& saved, const Upstream& up) {
  std::vector<bool> arrived;
  std::vector<Tensor> dy;
  for (const Tensor& grad : up.grads) {
    arrived.push_back(grad.defined());
    dy.push_back(grad ? as_rows_or_copy(grad) : grad);
  }
  const auto derivative = saved.function->derivative(up.wanted, arrived);
  std::vector<const Tensor*> inputs;
  for (const Kept& x : saved.inputs) inputs.push_back(&x.tensor());
  for (const Tensor& grad : dy) inputs.push_back(&grad);

  Device& device = std::find_if(up.grads.begin(), up.grads.end(), [](const Tensor& grad) { return grad.defined(); })->device();
  std::vector<Tensor> outputs;
  for (size_t i = 0; i < saved.shapes.size(); ++i)
    if (up.wanted[i]) outputs.push_back(Tensor::empty(device, saved.shape, saved.shapes[i] == saved.shape ? saved.dtypes[i] : DType::f32));
  launch(*derivative, outputs, inputs, saved.parameters);

  std::vector<Tensor> grads(saved.shapes.size());
  for (size_t i = 0, next = 0; i < grads.size(); ++i)
    if (up.wanted[i]) grads[i] = sum_to(outputs[next++], saved.shapes[i], saved.dtypes[i]);
  return grads;
}

Saved save(const ElementwiseFunction& function, std::span<const Tensor* const> inputs, std::span<const float> parameters,
           const Shape& shape) {
  std::vector<bool> wanted;
  for (const Tensor* x : inputs) wanted.push_back(x->requires_grad());
  const auto derivative = function.derivative(wanted, std::vector<bool>(size_t(function.outputs()), true));
  Saved saved{.function = function.shared_from_this(),
              .inputs = {},
              .shapes = {},
              .dtypes = {},
              .parameters = {parameters.begin(), parameters.end()},
              .shape = shape};
  saved.inputs.reserve(inputs.size());
  saved.shapes.reserve(inputs.size());
  saved.dtypes.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    saved.inputs.push_back(derivative->uses(int(i)) ? *inputs[i] : Tensor());
    saved.shapes.push_back(inputs[i]->shape());
    saved.dtypes.push_back(inputs[i]->dtype());
  }
  return saved;
}

}  // namespace

std::vector<Tensor> elementwise(const ElementwiseFunction& function, std::span<const Tensor* const> inputs,
                                std::span<const float> parameters, std::optional<DType> dtype) {
  std::vector<Shape> shapes;
  shapes.reserve(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    check(inputs[i]->defined(), kOp, "input ", i, " is missing (an undefined tensor)");
    shapes.push_back(inputs[i]->shape());
  }
  const Shape shape = broadcast_shape(shapes);
  const auto full = std::find(shapes.begin(), shapes.end(), shape);
  const DType out = dtype.value_or(inputs[full == shapes.end() ? 0 : size_t(full - shapes.begin())]->dtype());

  const RowInputs rows(inputs);
  const std::span<const Tensor* const> in = rows.list();
  std::vector<Tensor> outputs;
  outputs.reserve(size_t(function.outputs()));
  for (int i = 0; i < function.outputs(); ++i) outputs.push_back(Tensor::empty(in[0]->device(), shape, out));
  launch(function, outputs, in, parameters);

  if (should_record(in)) {
    std::vector<Tensor*> results;
    for (Tensor& output : outputs) results.push_back(&output);
    record(kOp, in, results, [saved = save(function, in, parameters, shape)](const Upstream& up) { return gradients(saved, up); });
  }
  return outputs;
}

void elementwise_into(const ElementwiseFunction& function, std::span<const Tensor> outputs, std::span<const Tensor* const> inputs,
                      std::span<const float> parameters) {
  check(!should_record(inputs), kOp, "writing into a tensor has no gradient, but an input requires one; use NoGrad or detach()");
  for (size_t i = 0; i < outputs.size(); ++i) {
    check(outputs[i].defined(), kOp, "output ", i, " is missing (an undefined tensor)");
    const Tensor* output[] = {&outputs[i]};
    check(!should_record(output), kOp, "output ", i, " requires a gradient and cannot be written over; use NoGrad or detach()");
  }
  const RowInputs rows(inputs);
  launch(function, outputs, rows.list(), parameters);
}

}  // namespace weft
