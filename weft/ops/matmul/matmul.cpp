#include "weft/ops/matmul/matmul.h"

#include <array>
#include <cmath>
#include <numeric>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/functions.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

constexpr const char* kOp = MatmulArgs::kOp;

// The extents of the matmul, and c's shape; throws if a and b do not fit.
struct Extents {
  int64_t M, N, K;
  Shape c;
};

Extents extents(const View& a, const View& b, bool transpose_a, bool transpose_b) {
  for (auto [name, view] : {std::pair<const char*, const View&>{"a", a}, {"b", b}})
    check(view.rank() >= 2 && view.rank() <= 4, kOp, name, " must have rank 2 to 4, got shape ", view.shape);
  const int ra = a.rank(), rb = b.rank();
  const int64_t a_inner = a.shape[ra - (transpose_a ? 2 : 1)], b_inner = b.shape[rb - (transpose_b ? 1 : 2)];
  check(a_inner == b_inner, kOp, "inner extents differ: a has shape ", a.shape, transpose_a ? " (transposed)" : "", ", b has shape ",
        b.shape, transpose_b ? " (transposed)" : "");
  Extents e{a.shape[ra - (transpose_a ? 1 : 2)], b.shape[rb - (transpose_b ? 2 : 1)], a_inner, {}};
  for (int axis = 0; axis < ra - 2; ++axis) e.c.push_back(a.shape[axis]);
  check(rb == 2 || std::equal(e.c.begin(), e.c.end(), b.shape.begin(), b.shape.end() - 2), kOp,
        "b must have rank 2 or the batch axes of a; a has shape ", a.shape, ", b has shape ", b.shape);
  e.c.push_back(e.M);
  e.c.push_back(e.N);
  return e;
}

MatmulPlan::Matrix matrix(const View& view) {
  const int rank = view.rank();
  return {view.strides[rank - 2], rank > 3 ? view.strides[0] : 0, rank > 2 ? view.strides[rank - 3] : 0};
}

bool stacked(const MatmulPlan& p, const MatmulPlan::Matrix& m) {
  return (p.inner == 1 || m.inner == p.M * m.row) && (p.outer == 1 || m.outer == p.inner * p.M * m.row);
}

}  // namespace

MatmulPlan plan(const MatmulArgs& args) {
  const Extents e = extents(args.a, args.b, args.transpose_a, args.transpose_b);
  MatmulPlan p{.M = e.M,
               .N = e.N,
               .K = e.K,
               .a = matrix(args.a),
               .b = matrix(args.b),
               .c = matrix(args.c),
               .pre = args.pre ? matrix(args.pre) : MatmulPlan::Matrix{},
               .slope_of = args.slope_of ? matrix(args.slope_of) : MatmulPlan::Matrix{}};
  const int rank = args.a.rank();
  if (rank > 3) p.outer = args.a.shape[0];
  if (rank > 2) p.inner = args.a.shape[rank - 3];
  p.shared_b = args.b.rank() == 2;
  // A batch that shares B is one matmul of more rows if the rows of all matrices are equally spaced.
  if (p.shared_b && !args.transpose_a && stacked(p, p.a) && stacked(p, p.c) && (!args.pre || stacked(p, p.pre)) &&
      (!args.slope_of || stacked(p, p.slope_of))) {
    p.M *= p.batch();
    p.outer = p.inner = 1;
  }
  return p;
}

namespace {

void check_int8(const Contract& contract, const MatmulArgs& args) {
  contract.require(args.b.rank() == 2 && args.transpose_b && !args.transpose_a, "an int8 b must be [N, K] and a not transposed, got shape ",
                   args.b.shape);
  contract.shape("scales", args.scales, Shape{args.b.shape[0], (args.b.shape[1] + kInt8Group - 1) / kInt8Group});
  contract.require(args.alpha == 1 && args.beta == 0 && !args.pre && !args.slope_of,
                   "an int8 b requires alpha 1, beta 0, no pre and no slope_of, alpha is ", args.alpha, " and beta ", args.beta);
}

}  // namespace

void check_contract(const Stream& stream, const MatmulArgs& args) {
  const Contract contract = check_operands(stream, args);
  const Extents e = extents(args.a, args.b, args.transpose_a, args.transpose_b);
  contract.shape("c", args.c, e.c).shape("pre", args.pre, e.c).shape("bias", args.bias, Shape{e.N});
  contract.shape("slope_of", args.slope_of, e.c).shape("column_sums", args.column_sums, Shape{e.N});
  contract.require(known(args.activation), "unknown activation ", int(args.activation));
  contract.require(args.precision == Precision::f32 || args.precision == Precision::tf32, "unknown precision ", int(args.precision));
  contract.require(args.precision == Precision::f32 || args.a.dtype == DType::f32, "precision tf32 is for f32 operands, a is ",
                   args.a.dtype);
  contract.require(!args.pre || args.activation != Activation::none,
                   "pre is for the backward of an activation, but there is no activation");
  contract.require((args.b.dtype == DType::u8) == bool(args.scales), "b is ", args.b.dtype, args.scales ? " with" : " without",
                   " scales; scales are required for u8 and not allowed for other dtypes");
  if (args.scales) check_int8(contract, args);
  contract.require(std::isfinite(args.alpha) && std::isfinite(args.beta), "alpha is ", args.alpha, " and beta ", args.beta,
                   ", expected finite values");
  const MatmulPlan p = plan(args);
  contract.require(!args.column_sums || args.slope_of, "column_sums requires slope_of");
  if (!args.slope_of) return;
  contract.require(args.activation != Activation::none, "slope_of is the input of an activation, but there is no activation");
  contract.require(!args.bias && !args.pre && args.beta == 0, "slope_of cannot be combined with bias, pre or beta");
  contract.require(args.any_order, "slope_of requires any_order");
  contract.require(p.batch() == 1, "slope_of requires one matrix, or a batch that shares b and whose matrices are stacked as one");
}

namespace {

// A view of the rows of all matrices of a batch as one matrix.
template <class AnyView>
AnyView as_matrix(AnyView view, const MatmulPlan& p, int64_t row) {
  view.shape = {p.M, p.N};
  view.strides = {row, 1};
  return view;
}

// The gradient before an activation, in three launches: for devices without a fused kernel.
void matmul_then_slope(Stream& stream, const MatmulArgs& args) {
  const MatmulPlan p = plan(args);
  MatmulArgs product = args;
  product.slope_of = {}, product.column_sums = {}, product.activation = Activation::none;
  stream.device().kernels().matmul(stream, product);
  const MutView c = as_matrix(args.c, p, p.c.row);
  const std::array inputs{as_matrix(args.slope_of, p, p.slope_of.row), View(c)};
  elementwise(stream, {.function = &activation_backward_function(args.activation), .inputs = inputs, .outputs = {&c, 1}, .parameters = {}});
  if (args.column_sums) reduce(stream, {.x = c, .y = args.column_sums, .axis = 0, .kind = Reduction::sum});
}

}  // namespace

void matmul(Stream& stream, const MatmulArgs& args) {
  check_contract(stream, args);
  if (args.slope_of && stream.device().dialect() != Dialect::cuda) return matmul_then_slope(stream, args);
  stream.device().kernels().matmul(stream, args);
}

Cost cost(const MatmulArgs& a) {
  const Extents e = extents(a.a, a.b, a.transpose_a, a.transpose_b);
  const double reads_c = a.beta != 0 ? bytes_of(a.c) : 0;
  return {operand_bytes(a) + reads_c, 2.0 * double(a.c.numel()) * double(e.K)};
}

namespace {

// Matrix `index` of a batch, as a view of rank 2.
template <class AnyView>
AnyView matrix_at(AnyView view, int64_t index) {
  const int rank = view.rank();
  for (int axis = rank - 3; axis >= 0; index /= view.shape[axis], --axis)
    view.offset += index % view.shape[axis] * view.strides[axis] * size_of(view.dtype);
  view.shape = {view.shape[rank - 2], view.shape[rank - 1]};
  view.strides = {view.strides[rank - 2], view.strides[rank - 1]};
  return view;
}

struct Flags {
  bool transpose_a, transpose_b;
  Precision precision;
};

// Destination of a matmul: a new tensor, or an existing one to which it is added.
struct Target {
  Shape shape;
  DType dtype;
  Tensor sum;

  Target(const Shape& shape, DType dtype, const Tensor& sum = {})
      : shape(shape), dtype(dtype), sum(sum && sum.dtype() == dtype ? sum : Tensor()) {}
  Tensor tensor(Device& device) const { return sum ? sum : Tensor::empty(device, shape, dtype); }
};

Tensor product(const Tensor& a, const Tensor& b, const Target& target, Flags flags) {
  const Tensor c = target.tensor(a.device());
  matmul(a.device().stream(), {.a = a.view(),
                               .b = b.view(),
                               .c = c.mut_view(),
                               .bias = {},
                               .pre = {},
                               .transpose_a = flags.transpose_a,
                               .transpose_b = flags.transpose_b,
                               .beta = target.sum ? 1.0f : 0.0f,
                               .precision = flags.precision,
                               .any_order = true});
  return c;
}

// Matrix by matrix, for what one launch does not take: a shared left operand, or (c of rank 2) a sum over the batch.
Tensor product_by_matrix(int64_t batch, const Tensor& a, const Tensor& b, const Target& target, Flags flags) {
  const Tensor c = target.tensor(a.device());
  for (int64_t i = 0; i < batch; ++i)
    matmul(a.device().stream(), {.a = matrix_at(a.view(), i),
                                 .b = matrix_at(b.view(), i),
                                 .c = matrix_at(c.mut_view(), i),
                                 .bias = {},
                                 .pre = {},
                                 .transpose_a = flags.transpose_a,
                                 .transpose_b = flags.transpose_b,
                                 .beta = target.sum || (target.shape.rank() == 2 && i > 0) ? 1.0f : 0.0f,
                                 .precision = flags.precision,
                                 .any_order = true});
  return c;
}

bool leaf(const Tensor& x) { return x.node() && x.node()->leaf(); }

// Tensors kept for the backward.
struct Saved {
  Kept a, b;
  Tensor pre;
  Flags flags;
  Activation activation;
  DType da, db, dbias;

  bool batch_shares_b() const { return a.rank() > 2 && b.rank() == 2; }
  int64_t batch() const { return std::accumulate(a.shape().begin(), a.shape().end() - 2, int64_t(1), std::multiplies<>()); }

  Tensor gradient_a(const Tensor& dc, const Tensor& sum) const {
    const Target target{a.shape(), da, sum};
    if (!flags.transpose_a) return product(dc, b, target, {false, !flags.transpose_b, flags.precision});
    if (batch_shares_b()) return product_by_matrix(batch(), b, dc, target, {flags.transpose_b, true, flags.precision});
    return product(b, dc, target, {flags.transpose_b, true, flags.precision});
  }

  Tensor gradient_b(const Tensor& dc, const Tensor& sum) const {
    const Target target{b.shape(), db, sum};
    if (!batch_shares_b()) return gradient_b(a, dc, target);
    const int64_t K = b.shape()[flags.transpose_b ? 1 : 0], N = dc.shape().back();
    // One product over the rows of all matrices, where they stand under each other.
    if (!flags.transpose_a) {
      const int64_t rows = batch() * dc.shape()[dc.rank() - 2];
      return gradient_b(contiguous(a).reshape({rows, K}), dc.reshape({rows, N}), target);
    }
    if (batch() == 0) return target.sum ? target.sum : zeros(a.device(), b.shape(), db);
    if (flags.transpose_b) return product_by_matrix(batch(), dc, a, target, {true, flags.transpose_a, flags.precision});
    return product_by_matrix(batch(), a, dc, target, {!flags.transpose_a, false, flags.precision});
  }
  Tensor gradient_b(const Tensor& x, const Tensor& dc, const Target& target) const {
    if (flags.transpose_b) return product(dc, x, target, {true, flags.transpose_a, flags.precision});
    return product(x, dc, target, {!flags.transpose_a, false, flags.precision});
  }

  std::vector<Tensor> operator()(const Upstream& up) const {
    Tensor dc = contiguous(up.grads[0]);
    if (activation != Activation::none) dc = activation_backward(pre, dc, activation);
    std::vector<Tensor> grads(3);
    if (up.wanted[2]) {
      const int64_t N = dc.shape().back(), rows = N ? dc.numel() / N : 0;
      grads[2] = cast(reduce_sum(dc.reshape({rows, N}), 0), dbias);
    }
    const Tensor factor = cast(dc, a.dtype());  // an f32 result of bf16 operands: its gradient meets them as bf16
    if (up.wanted[0]) grads[0] = gradient_a(factor, up.sum(0));
    if (up.wanted[1]) grads[1] = gradient_b(factor, up.sum(1));
    return grads;
  }
};

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  Device& device = a.device();
  check(b.defined(), kOp, "b is missing (an undefined tensor)");
  const Extents e = extents(a.view(), b.view(), options.transpose_a, options.transpose_b);
  const Tensor& bias = options.bias;
  Tensor c = Tensor::empty(device, e.c, options.out_dtype.value_or(a.dtype()));
  const bool keep = options.activation != Activation::none && should_record({&a, &b, &bias});
  const Tensor pre = keep ? Tensor::empty(device, e.c, c.dtype()) : Tensor();
  matmul(device.stream(), {.a = a.view(),
                           .b = b.view(),
                           .c = c.mut_view(),
                           .bias = bias.view(),
                           .pre = pre.mut_view(),
                           .transpose_a = options.transpose_a,
                           .transpose_b = options.transpose_b,
                           .activation = options.activation,
                           .precision = options.precision,
                           .scales = options.scales.view()});
  if (options.scales) {
    record(kOp, {&a, &b, &bias}, {&c}, NotDifferentiable{"int8 weights are for inference"});
    return c;
  }
  record(kOp, {&a, &b, &bias}, {&c},
         Saved{.a = a,
               .b = b,
               .pre = pre,
               .flags = {options.transpose_a, options.transpose_b, options.precision},
               .activation = options.activation,
               .da = leaf(a) ? DType::f32 : a.dtype(),
               .db = leaf(b) ? DType::f32 : b.dtype(),
               .dbias = leaf(bias) || !bias ? DType::f32 : bias.dtype()});
  return c;
}

}  // namespace weft
