#include "weft/ops/elementwise/functions.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

void check_defined(const char* op, const char* name, const Tensor& x) { check(x.defined(), op, name, " is missing (an undefined tensor)"); }

Tensor sum(const Tensor& a, const Tensor& b) {
  static const auto f = fuse([](Expr x, Expr y) { return x + y; });
  return f(a.detach(), b.detach());
}

// s(t) and 1 - s(t). With e = e^-|t| <= 1 neither overflows nor cancels.
struct Logistic {
  Expr s, rest;
};
Logistic logistic(Expr t) {
  const Expr negative = t < 0.0f, e = exp(-abs(t)), scale = 1.0f / (1.0f + e);
  return {select(negative, e, 1.0f) * scale, select(negative, 1.0f, e) * scale};
}

Expr relu_backward(Expr x, Expr dy) { return select(x <= 0.0f, 0.0f, select(0.0f < x, dy, x)); }  // a NaN stays

// Past 128 one of s and 1 - s is 0; the clamp keeps infinity from meeting it.
Expr silu_backward(Expr x, Expr dy) {
  const Logistic l = logistic(x);
  return dy * (l.s * (clamp(x, -128.0f, 128.0f) * l.rest + 1.0f));
}

// t = x P(x^2) with P(q) = p0 + p1 q, so x t' = x (p0 + 3 p1 q). Past 16, |t| > 300.
Expr gelu_tanh_backward(Expr x, Expr dy) {
  constexpr float kP0 = 1.5957691216057308f, kP1 = 0.071354816272600f;
  const Expr c = clamp(x, -16.0f, 16.0f), q = c * c;
  const Logistic l = logistic(c * (q * kP1 + kP0));
  return dy * (l.s * (c * (q * (3 * kP1) + kP0) * l.rest + 1.0f));
}

const auto& capped() {
  static const auto f = fuse([](Expr x, Param cap) { return cap * tanh(x / cap); });
  return f;
}

void check_cap(const char* op, const Tensor& x, float cap) {
  check_defined(op, "x", x);
  check(std::isfinite(cap) && cap > 0, op, "cap is ", cap, ", expected a number above 0");
}

Tensor activated(const Tensor& x, Activation kind) {
  static const auto none_of = fuse([](Expr v) { return v; });
  static const auto relu_of = fuse([](Expr v) { return relu(v); });
  static const auto silu_of = fuse([](Expr v) { return silu(v); });
  static const auto gelu_tanh_of = fuse([](Expr v) { return gelu_tanh(v); });
  switch (kind) {
    case Activation::none: return none_of(x);
    case Activation::relu: return relu_of(x);
    case Activation::silu: return silu_of(x);
    case Activation::gelu_tanh: return gelu_tanh_of(x);
  }
  fail(ErrorCode::invalid_argument, "activation", "unknown activation ", int(kind));
}

}  // namespace

// The derived rules of a sum would copy dy, and sum a copy: these pass it on.

Tensor bias_add(const Tensor& x, const Tensor& bias) {
  constexpr const char* kOp = "bias_add";
  check_defined(kOp, "x", x);
  check_defined(kOp, "bias", bias);
  check(x.rank() >= 1, kOp, "x must have at least one axis");
  check(bias.shape() == Shape{x.shape().back()}, kOp, "bias has shape ", bias.shape(), ", expected ", Shape{x.shape().back()});
  Tensor y = sum(x, bias);
  record(kOp, {&x, &bias}, {&y}, [rows = as_rows(y.view(), kOp, "y")](const Upstream& up) {
    const Tensor dy = up.grads[0].detach();
    if (!up.wanted[1]) return std::vector<Tensor>{dy, Tensor()};
    const Tensor summed = dy.dtype() == DType::f16 ? cast(dy, DType::f32) : dy;
    return std::vector<Tensor>{dy, reduce_sum(contiguous(summed).reshape({rows.rows, rows.columns}), 0)};
  });
  return y;
}

Tensor add(const Tensor& a, const Tensor& b) {
  check_defined("add", "a", a);
  check_defined("add", "b", b);
  check(a.shape() == b.shape(), "add", "b has shape ", b.shape(), ", expected a's, ", a.shape());
  Tensor y = sum(a, b);
  record("add", {&a, &b}, {&y}, [a_dtype = a.dtype(), b_dtype = b.dtype()](const Upstream& up) {
    const Tensor dy = up.grads[0].detach();
    return std::vector<Tensor>{up.wanted[0] ? cast(dy, a_dtype) : Tensor(), up.wanted[1] ? cast(dy, b_dtype) : Tensor()};
  });
  return y;
}

void add_assign(const Tensor& dst, const Tensor& src) {
  static const auto f = fuse([](Expr x, Expr y) { return x + y; });
  constexpr const char* kOp = "add_assign";
  check_defined(kOp, "dst", dst);
  check_defined(kOp, "src", src);
  check(!should_record({&dst, &src}), kOp, "adding in place has no gradient, but an operand requires one; use add() or NoGrad");
  check(src.shape() == dst.shape(), kOp, "src has shape ", src.shape(), ", expected dst's, ", dst.shape());
  f.into(dst, dst, src);
}

Tensor scale(const Tensor& x, float by, const Tensor& factor) {
  static const auto by_number = fuse([](Expr v, Param s) { return v * s; });
  static const auto by_both = fuse([](Expr v, Expr f, Param s) { return v * (s * f); });
  constexpr const char* kOp = "scale";
  check_defined(kOp, "x", x);
  if (!factor) return by_number(x, by);
  check(!should_record({&factor}), kOp, "factor has no gradient, but requires one; use detach()");
  Contract(kOp, x.device().stream()).scalar("factor", factor.view(), DType::f32);
  return by_both(x, factor.detach().reshape({}), by);
}

Tensor soft_cap(const Tensor& x, float cap) {
  check_cap("soft_cap", x, cap);
  return capped()(x, cap);
}

void soft_cap_in_place(const Tensor& x, float cap) {
  check_cap("soft_cap", x, cap);
  capped().into(x, x, cap);
}

void soft_cap_backward_in_place(const Tensor& y, const Tensor& dy, float cap) {
  static const auto slope = fuse([](Expr y, Expr dy, Param cap) { return dy * (1.0f - (y / cap) * (y / cap)); });
  check_cap("soft_cap", y, cap);
  slope.into(dy, y, dy, cap);
}

// The rule is written out: the derived one has 1 - s, which cancels, and loses the limits in infinity times 0.
Tensor activation(const Tensor& x, Activation kind) {
  check_defined("activation", "x", x);
  Tensor y = activated(x.detach(), kind);
  record("activation", {&x}, {&y},
         [x = Kept(x), kind](const Upstream& up) { return std::vector<Tensor>{activation_backward(x, up.grads[0].detach(), kind)}; });
  return y;
}

namespace {

const auto& backward_of(Activation kind) {
  static const auto relu = fuse(relu_backward);
  static const auto silu = fuse(silu_backward);
  static const auto gelu_tanh = fuse(gelu_tanh_backward);
  switch (kind) {
    case Activation::relu: return relu;
    case Activation::silu: return silu;
    case Activation::gelu_tanh: return gelu_tanh;
    case Activation::none: break;
  }
  fail(ErrorCode::invalid_argument, "activation_backward", "unknown activation ", int(kind));
}

}  // namespace

const ElementwiseFunction& activation_backward_function(Activation kind) { return backward_of(kind).function(); }

Tensor activation_backward(const Tensor& x, const Tensor& dy, Activation kind) {
  constexpr const char* kOp = "activation_backward";
  check_defined(kOp, "x", x);
  check_defined(kOp, "dy", dy);
  check(dy.shape() == x.shape(), kOp, "dy has shape ", dy.shape(), ", expected x's, ", x.shape());
  return kind == Activation::none ? cast(dy, x.dtype()) : backward_of(kind)(x, dy);
}

}  // namespace weft
