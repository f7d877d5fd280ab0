// The element types, their host representations, and dispatch from a run-time DType to a C++ type.
#pragma once

#include <bit>
#include <cstdint>
#include <ostream>
#include <string_view>

#include "weft/base/check.h"

namespace weft {

enum class DType : uint8_t { f32, bf16, f16, i32, u32, u8 };

constexpr int64_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::u8: return 1;
  }
  return 0;
}

constexpr bool is_float(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16; }
constexpr bool is_id(DType dtype) { return dtype == DType::i32 || dtype == DType::u32; }

std::string_view name(DType dtype);
DType dtype_from_name(std::string_view name);  // throws on an unknown name
inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

// bfloat16: the upper half of a float. Conversion rounds to nearest even; NaN stays a quiet NaN.
struct bf16 {
  uint16_t bits;

  bf16() = default;
  explicit bf16(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? uint16_t((u >> 16) | 0x40u) : uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

// IEEE half. Storage only on the host: arithmetic is done in f32.
struct f16 {
  uint16_t bits;

  f16() = default;
  explicit f16(float value);
  explicit operator float() const;
};

template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct dtype_of<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct dtype_of<uint32_t> {
  static constexpr DType value = DType::u32;
};
template <>
struct dtype_of<uint8_t> {
  static constexpr DType value = DType::u8;
};

// Calls f.operator()<T>() with the T among Ts whose DType is `dtype`; any other dtype is an error.
//   dispatch<float, bf16>(x.dtype, [&]<class T>() { run<T>(args); });
template <class... Ts, class F>
void dispatch(DType dtype, F&& f) {
  const bool found = ((dtype_of<Ts>::value == dtype && (f.template operator()<Ts>(), true)) || ...);
  if (!found) [[unlikely]]
    fail(ErrorCode::unsupported, "dispatch", "no kernel for dtype ", dtype);
}

}  // namespace weft
