// a + b, a - b, a * b, a / b and -a of tensors and numbers: values, gradients by differences, and errors.
#include "weft/ops/elementwise/operators.h"

#include <gtest/gtest.h>

#include "tests/unit/observed.h"
#include "tests/unit/test_device.h"
#include "weft/autograd/gradcheck.h"
#include "weft/base/philox.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/reduce/reduce.h"

namespace weft {
namespace {

using Values = std::vector<float>;

class Operators : public testing::Test {
 protected:
  std::shared_ptr<Device> device = open_device(test_device(), {.checked = true});

  Tensor tensor(const Shape& shape, const Values& values) const { return Tensor::from_host(*device, shape, values); }
  // Values between 0.5 and 1.5, so that a quotient is smooth: a leaf that requires a gradient.
  Tensor leaf(const Shape& shape, uint32_t site) const {
    PhiloxStream random(5, site);
    Values values(size_t(shape.numel()));
    for (float& v : values) v = float(0.5 + random.uniform());
    return tensor(shape, values).set_requires_grad();
  }
  static void expect_gradients(const char* what, const std::function<Tensor()>& f, const Tensor& a, const Tensor& b) {
    for (const GradcheckResult& r : gradcheck(f, {{"a", a}, {"b", b}}))
      EXPECT_LE(r.error(), 2e-3) << what << " " << a.shape() << " " << b.shape() << ", " << r.name << ": " << r.analytic << " "
                                 << r.numeric;
  }
};

TEST_F(Operators, values) {
  const Tensor a = tensor({2, 2}, {1, 2, 3, 4}), b = tensor({2, 2}, {4, 2, 1, 0.5});
  EXPECT_EQ((a + b).to_host<float>(), (Values{5, 4, 4, 4.5}));
  EXPECT_EQ((a - b).to_host<float>(), (Values{-3, 0, 2, 3.5}));
  EXPECT_EQ((a * b).to_host<float>(), (Values{4, 4, 3, 2}));
  EXPECT_EQ((a / b).to_host<float>(), (Values{0.25, 1, 3, 8}));
  EXPECT_EQ((-a).to_host<float>(), (Values{-1, -2, -3, -4}));
  EXPECT_EQ((a + 1).to_host<float>(), (Values{2, 3, 4, 5}));
  EXPECT_EQ((1 + a).to_host<float>(), (Values{2, 3, 4, 5}));
  EXPECT_EQ((a - 1).to_host<float>(), (Values{0, 1, 2, 3}));
  EXPECT_EQ((1 - a).to_host<float>(), (Values{0, -1, -2, -3}));
  EXPECT_EQ((a * 0.5f).to_host<float>(), (Values{0.5, 1, 1.5, 2}));
  EXPECT_EQ((2 * a).to_host<float>(), (Values{2, 4, 6, 8}));
  EXPECT_EQ((a / 4.0).to_host<float>(), (Values{0.25, 0.5, 0.75, 1}));
  EXPECT_EQ((12 / a).to_host<float>(), (Values{12, 6, 4, 3}));
}

TEST_F(Operators, shapes_broadcast) {
  const Tensor a = tensor({2, 2}, {1, 2, 3, 4}), row = tensor({2}, {10, 20}), column = tensor({2, 1}, {10, 20}), one = full(*device, {}, 2);
  EXPECT_EQ((a + row).to_host<float>(), (Values{11, 22, 13, 24}));
  EXPECT_EQ((row + a).to_host<float>(), (Values{11, 22, 13, 24}));
  EXPECT_EQ((a - column).to_host<float>(), (Values{-9, -8, -17, -16}));
  EXPECT_EQ((a * one).to_host<float>(), (Values{2, 4, 6, 8}));
  EXPECT_EQ((row / column).to_host<float>(), (Values{1, 2, 0.5, 1}));
}

TEST_F(Operators, the_result_has_the_dtype_of_the_operand_with_its_shape) {
  const Tensor a = cast(tensor({2, 2}, {1, 2, 3, 4}), DType::bf16), row = tensor({2}, {10, 20});
  EXPECT_EQ((a + row).dtype(), DType::bf16);
  EXPECT_EQ((row * a).dtype(), DType::bf16);
  EXPECT_EQ((a * 2).dtype(), DType::bf16);
  EXPECT_EQ((row - cast(row, DType::bf16)).dtype(), DType::f32);
}

TEST_F(Operators, gradients_are_those_of_differences) {
  for (const Shape& shape : {Shape{3, 5}, Shape{5}, Shape{3, 1}, Shape{1}, Shape{}}) {
    const Tensor a = leaf({3, 5}, 1), b = leaf(shape, 2);
    expect_gradients("a + b", [&] { return a + b; }, a, b);
    expect_gradients("a - b", [&] { return a - b; }, a, b);
    expect_gradients("b - a", [&] { return b - a; }, a, b);
    expect_gradients("a * b", [&] { return a * b; }, a, b);
    expect_gradients("a / b", [&] { return a / b; }, a, b);
    expect_gradients("b / a", [&] { return b / a; }, a, b);
  }
  const Tensor a = leaf({3, 5}, 3), b = leaf({3, 5}, 4);
  expect_gradients("numbers", [&] { return 2 - (-a + 3) * 0.5 + (1.5 * a) / 4 + (b - 1) + (2 + b) + 1 / b; }, a, b);
  expect_gradients("a * a", [&] { return a * a + b * b; }, a, b);
}

TEST_F(Operators, backward_is_a_member_and_adds_up) {
  const Tensor w = tensor({2}, {1, 2}).set_requires_grad();
  sum_all(w * w * 0.5).backward();
  EXPECT_EQ(w.grad().to_host<float>(), (Values{1, 2}));
  sum_all(w * w * 0.5).backward();
  EXPECT_EQ(w.grad().to_host<float>(), (Values{2, 4}));
  EXPECT_NE(message_of([&] { (w * 2).backward(); }).find("the loss must hold one element, got shape 2"), std::string::npos);
}

TEST_F(Operators, errors_name_the_operator_and_the_shapes) {
  const Tensor a = zeros(*device, {2, 3}), b = zeros(*device, {4});
  const std::string shapes = message_of([&] { return a * b; });
  EXPECT_NE(shapes.find("2x3"), std::string::npos) << shapes;
  EXPECT_NE(shapes.find("4"), std::string::npos) << shapes;
  EXPECT_NE(message_of([&] { return a - Tensor(); }).find("operator -: the right operand is an undefined tensor"), std::string::npos);
  EXPECT_NE(message_of([&] { return Tensor() / a; }).find("operator /: the left operand is an undefined tensor"), std::string::npos);
  const auto other = open_device("cpu", {.threads = 1});
  EXPECT_NE(message_of([&] { return a + zeros(*other, {2, 3}); }).find("operator +: the operands are on two devices"), std::string::npos);
}

}  // namespace
}  // namespace weft
