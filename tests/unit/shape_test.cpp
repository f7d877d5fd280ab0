#include "weft/base/shape.h"

#include <gtest/gtest.h>

#include <sstream>

#include "weft/base/error.h"

namespace weft {
namespace {

TEST(shape, counts_elements) {
  EXPECT_EQ(Shape({3, 257}).numel(), 771);
  EXPECT_EQ(Shape().numel(), 1);
  EXPECT_EQ(Shape({5, 0, 7}).numel(), 0);
  EXPECT_EQ(Shape({int64_t(1) << 40, int64_t(1) << 40, 0}).numel(), 0);
}

TEST(shape, rejects_sizes_that_overflow) { EXPECT_THROW(Shape({int64_t(1) << 40, int64_t(1) << 40}).numel(), Error); }
TEST(shape, rejects_negative_extents) { EXPECT_THROW(Shape({2, -1}), Error); }
TEST(shape, rejects_too_many_axes) { EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1, 1}), Error); }

TEST(shape, strides_of_a_contiguous_tensor) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), Strides({12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), Strides({4, 4, 1}));
  EXPECT_EQ(contiguous_strides({0, int64_t(1) << 40, int64_t(1) << 40})[1], int64_t(1) << 40);  // defined, under UBSan too
}

TEST(shape, prints) {
  std::ostringstream text;
  text << Shape{3, 257} << " " << Shape{};
  EXPECT_EQ(text.str(), "3x257 scalar");
}

TEST(shape, axes_count_from_the_end) {
  EXPECT_EQ(normalise_axis(-1, 3, "test"), 2);
  EXPECT_EQ(normalise_axis(0, 3, "test"), 0);
  EXPECT_THROW(normalise_axis(3, 3, "test"), Error);
  EXPECT_THROW(normalise_axis(-4, 3, "test"), Error);
}

}  // namespace
}  // namespace weft
