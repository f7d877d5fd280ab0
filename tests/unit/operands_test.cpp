// The declaration of an op's operands: each rule, and the message that names op, operand and values.
#include "weft/ops/operands.h"

#include <gtest/gtest.h>

#include "weft/backends/open.h"
#include "weft/tensor/tensor.h"

namespace weft {
namespace {

struct SampleArgs {
  static constexpr const char* kOp = "sample";
  View x, w, scale;
  View residual;
  MutView y, h, sums, state;

  static constexpr auto operands() {
    using namespace operand;
    using A = SampleArgs;
    return std::array{in("x", &A::x, "... C", kFloats).rows(),
                      in("w", &A::w, "C", like("x", DType::f32)),
                      in("scale", &A::scale, "1", DType::f32),
                      in("residual", &A::residual, "... C", like("x")).strided().optional(),
                      out("y", &A::y, "... 2 C", kAny).columns(),
                      out("h", &A::h, "... C", like("x")).with("residual"),
                      out("sums", &A::sums, "(...)", DType::f32).uncounted(),
                      in_out("state", &A::state, "", kIds)};
  }
};

class OperandsTest : public testing::Test {
 protected:
  static Tensor empty(const Shape& shape, DType dtype = DType::f32) { return Tensor::empty(*device(), shape, dtype); }
  static const std::shared_ptr<Device>& device() {
    static const auto device = open_device("cpu", {.checked = true});
    return device;
  }

  Tensor x = empty({3, 5, 8}), w = empty({8}), scale = empty({}), residual, y = empty({3, 5, 2, 8}), h, sums = empty({15}),
         state = empty({4}, DType::u32);

  SampleArgs args() const {
    return {x.view(), w.view(), scale.view(), residual.view(), y.mut_view(), h.mut_view(), sums.mut_view(), state.mut_view()};
  }
  std::string message() const {
    try {
      check_operands(device()->stream(), args());
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(OperandsTest, declared_operands_are_accepted) {
  EXPECT_EQ(message(), "");
  x = empty({8});  // no leading axes: one row
  y = empty({2, 8}), sums = empty({1});
  EXPECT_EQ(message(), "");
}

TEST_F(OperandsTest, missing_operands_and_pairs_are_named) {
  w = Tensor();
  EXPECT_EQ(message(), "sample: w is missing (an undefined tensor)");
  w = empty({8}), residual = empty({3, 5, 8});
  EXPECT_EQ(message(), "sample: h is missing: it goes with residual");
  residual = Tensor(), h = empty({3, 5, 8});
  EXPECT_EQ(message(), "sample: h is given without residual");
  residual = empty({3, 5, 8});
  EXPECT_EQ(message(), "");
}

TEST_F(OperandsTest, dtypes_are_named) {
  x = empty({3, 5, 8}, DType::i32);
  EXPECT_EQ(message(), "sample: x is i32, expected f32 or bf16");
  x = empty({3, 5, 8});
  w = empty({8}, DType::bf16);
  EXPECT_EQ(message(), "sample: w is bf16, expected f32 to go with x");
  x = empty({3, 5, 8}, DType::bf16);
  EXPECT_EQ(message(), "");
}

TEST_F(OperandsTest, shapes_are_named) {
  w = empty({7});
  EXPECT_EQ(message(), "sample: w has shape 7, expected 8");
  w = empty({8}), scale = empty({2});
  EXPECT_EQ(message(), "sample: scale must hold one element, got shape 2");
  scale = empty({1, 1}), y = empty({3, 5, 3, 8});
  EXPECT_EQ(message(), "sample: y has shape 3x5x3x8, expected 3x5x2x8");
  y = empty({3, 5, 2, 8}), sums = empty({3, 5});
  EXPECT_EQ(message(), "sample: sums has shape 3x5, expected 15");
  x = empty({});
  EXPECT_EQ(message(), "sample: x has shape scalar, expected ...xC");
}

TEST_F(OperandsTest, strides_are_named) {
  x = empty({3, 8, 5}).permute({0, 2, 1});
  EXPECT_EQ(message(), "sample: x must have unit stride along its last axis, got strides 40x1x5 for shape 3x5x8");
  x = empty({3, 5, 8}), state = empty({4, 4}, DType::u32).part(1, 0, 2);
  EXPECT_EQ(message(), "sample: state must be contiguous, got strides 4x1 for shape 4x2");
  state = empty({4}, DType::u32);
  SampleArgs overlapping = args();
  overlapping.y.strides[0] = 0;
  EXPECT_THROW(check_operands(device()->stream(), overlapping), Error);
}

TEST_F(OperandsTest, the_element_of_a_list_is_named) {
  w = Tensor();
  const Contract contract("sample", device()->stream());
  try {
    check_operands(contract, args(), {"tensors", 3});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "sample: tensors[3].w is missing (an undefined tensor)");
  }
}

TEST_F(OperandsTest, bytes_are_counted) {
  // x, w, scale, y; sums is not counted, state is read and written.
  EXPECT_EQ(operand_bytes(args()), 4.0 * (120 + 8 + 1 + 240 + 2 * 4));
}

}  // namespace
}  // namespace weft
