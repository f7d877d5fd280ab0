#include "weft/ops/elementwise/operators.h"

#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/elementwise/functions.h"

namespace weft {
namespace {

void check_operands(const char* op, const Tensor& a, const Tensor& b) {
  check(a.defined(), op, "the left operand is an undefined tensor");
  check(b.defined(), op, "the right operand is an undefined tensor");
  check(&a.device() == &b.device(), op, "the operands are on two devices, ", a.device().name(), " and ", b.device().name());
}

void check_operand(const char* op, const Tensor& a) { check(a.defined(), op, "the operand is an undefined tensor"); }

}  // namespace

// add() passes the gradient on without a copy where no axis is repeated.
Tensor operator+(const Tensor& a, const Tensor& b) {
  static const auto f = fuse([](Expr x, Expr y) { return x + y; });
  check_operands("operator +", a, b);
  return a.shape() == b.shape() ? add(a, b) : f(a, b);
}

Tensor operator-(const Tensor& a, const Tensor& b) {
  static const auto f = fuse([](Expr x, Expr y) { return x - y; });
  check_operands("operator -", a, b);
  return f(a, b);
}

Tensor operator*(const Tensor& a, const Tensor& b) {
  static const auto f = fuse([](Expr x, Expr y) { return x * y; });
  check_operands("operator *", a, b);
  return f(a, b);
}

Tensor operator/(const Tensor& a, const Tensor& b) {
  static const auto f = fuse([](Expr x, Expr y) { return x / y; });
  check_operands("operator /", a, b);
  return f(a, b);
}

Tensor operator-(const Tensor& a) {
  static const auto f = fuse([](Expr x) { return -x; });
  check_operand("operator -", a);
  return f(a);
}

Tensor operator+(const Tensor& a, double b) {
  static const auto f = fuse([](Expr x, Param s) { return x + s; });
  check_operand("operator +", a);
  return f(a, b);
}

Tensor operator-(const Tensor& a, double b) {
  static const auto f = fuse([](Expr x, Param s) { return x - s; });
  check_operand("operator -", a);
  return f(a, b);
}

Tensor operator*(const Tensor& a, double b) {
  static const auto f = fuse([](Expr x, Param s) { return x * s; });
  check_operand("operator *", a);
  return f(a, b);
}

Tensor operator/(const Tensor& a, double b) {
  static const auto f = fuse([](Expr x, Param s) { return x / s; });
  check_operand("operator /", a);
  return f(a, b);
}

Tensor operator-(double a, const Tensor& b) {
  static const auto f = fuse([](Expr x, Param s) { return s - x; });
  check_operand("operator -", b);
  return f(b, a);
}

Tensor operator/(double a, const Tensor& b) {
  static const auto f = fuse([](Expr x, Param s) { return s / x; });
  check_operand("operator /", b);
  return f(b, a);
}

Tensor operator+(double a, const Tensor& b) { return b + a; }
Tensor operator*(double a, const Tensor& b) { return b * a; }

}  // namespace weft
