#include "weft/base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

TEST(bf16, rounds_to_nearest_even) {
  EXPECT_EQ(bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bf16(std::bit_cast<float>(0x3f808000u)).bits, 0x3f80);  // halfway: to even
  EXPECT_EQ(bf16(std::bit_cast<float>(0x3f818000u)).bits, 0x3f82);  // halfway: to even
  EXPECT_EQ(bf16(std::bit_cast<float>(0x3f808001u)).bits, 0x3f81);  // past halfway: up
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds up to infinity
  EXPECT_EQ(bf16(-std::numeric_limits<float>::infinity()).bits, 0xff80);
  EXPECT_TRUE(std::isnan(float(bf16(std::bit_cast<float>(0x7f800001u)))));  // a payload that truncation would lose
}

TEST(bf16, every_value_survives_the_round_trip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    bf16 value;
    value.bits = uint16_t(bits);
    const float wide = float(value);
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(float(bf16(wide))));
    else
      EXPECT_EQ(bf16(wide).bits, bits);
  }
}

TEST(f16, every_value_survives_the_round_trip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    f16 value;
    value.bits = uint16_t(bits);
    const float wide = float(value);
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(float(f16(wide))));
    else
      EXPECT_EQ(f16(wide).bits, bits) << wide;
  }
}

// Between two neighbouring halves the nearer one wins, and the even one at the midpoint.
TEST(f16, rounds_to_nearest_even) {
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    f16 low, high;
    low.bits = uint16_t(bits);
    high.bits = uint16_t(bits + 1);
    const float middle = float((double(float(low)) + double(float(high))) / 2);
    EXPECT_EQ(f16(middle).bits, bits % 2 ? bits + 1 : bits);
    EXPECT_EQ(f16(std::nextafter(middle, 0.0f)).bits, bits);
    EXPECT_EQ(f16(std::nextafter(middle, 1e9f)).bits, bits + 1);
  }
  EXPECT_EQ(f16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(f16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(f16(-1e9f).bits, 0xfc00);
}

TEST(dtype, names_round_trip) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u32, DType::u8})
    EXPECT_EQ(dtype_from_name(name(dtype)), dtype);
  EXPECT_THROW(dtype_from_name("f64"), Error);
}

TEST(dtype, dispatch_rejects_unlisted_dtypes) {
  bool called = false;
  dispatch<float, bf16>(DType::bf16, [&]<class T>() { called = std::is_same_v<T, bf16>; });
  EXPECT_TRUE(called);
  EXPECT_THROW((dispatch<float, bf16>(DType::i32, []<class T>() {})), Error);
}

}  // namespace
}  // namespace weft
