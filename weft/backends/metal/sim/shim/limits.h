// metal::numeric_limits.
#pragma once

#include <weft_sim/types.h>

namespace metal {

template <class T>
struct numeric_limits;

template <class T>
struct IntegerLimits {
  static constexpr bool is_specialized = true, is_integer = true, is_signed = T(-1) < T(0), has_infinity = false;
  static constexpr int digits = int(sizeof(T)) * 8 - is_signed;
  static constexpr T max() { return T(~0ull >> (64 - digits)); }
  static constexpr T min() { return is_signed ? T(-max() - 1) : T(0); }
  static constexpr T lowest() { return min(); }
};
template <>
struct numeric_limits<char> : IntegerLimits<char> {};
template <>
struct numeric_limits<signed char> : IntegerLimits<signed char> {};
template <>
struct numeric_limits<uchar> : IntegerLimits<uchar> {};
template <>
struct numeric_limits<short> : IntegerLimits<short> {};
template <>
struct numeric_limits<ushort> : IntegerLimits<ushort> {};
template <>
struct numeric_limits<int> : IntegerLimits<int> {};
template <>
struct numeric_limits<uint> : IntegerLimits<uint> {};
template <>
struct numeric_limits<long> : IntegerLimits<long> {};
template <>
struct numeric_limits<ulong> : IntegerLimits<ulong> {};

#define WEFT_SIM_FLOAT_LIMITS(T, least, most, step, bits)                                                   \
  template <>                                                                                               \
  struct numeric_limits<T> {                                                                                \
    static constexpr bool is_specialized = true, is_integer = false, is_signed = true, has_infinity = true; \
    static constexpr int digits = bits;                                                                     \
    static constexpr T min() { return T(least); }                                                           \
    static constexpr T max() { return T(most); }                                                            \
    static constexpr T lowest() { return T(-most); }                                                        \
    static constexpr T epsilon() { return T(step); }                                                        \
    static constexpr T infinity() { return T(__builtin_inff()); }                                           \
    static constexpr T quiet_NaN() { return T(__builtin_nanf("")); }                                        \
  };
WEFT_SIM_FLOAT_LIMITS(float, 0x1p-126f, 0x1.fffffep127f, 0x1p-23f, 24)
WEFT_SIM_FLOAT_LIMITS(half, 0x1p-14f, 65504.0f, 0x1p-10f, 11)
WEFT_SIM_FLOAT_LIMITS(bfloat, 0x1p-126f, 0x1.fep127f, 0x1p-7f, 8)

}  // namespace metal
