#include "weft/base/dtype.h"

namespace weft {
namespace {
constexpr std::string_view kNames[] = {"f32", "bf16", "f16", "i32", "u32", "u8"};
}

std::string_view name(DType dtype) { return kNames[static_cast<int>(dtype)]; }

DType dtype_from_name(std::string_view text) {
  for (int i = 0; i < int(std::size(kNames)); ++i)
    if (kNames[i] == text) return static_cast<DType>(i);
  fail(ErrorCode::invalid_argument, "dtype", "unknown dtype '", text, "', expected f32, bf16, f16, i32, u32 or u8");
}

// Rounds to nearest even with the float adder: scaling by 2^-112 and back moves the half's exponent range (subnormals included) to where
// the float's own rounding happens.
f16::f16(float value) {
  const auto u = std::bit_cast<uint32_t>(value);
  const auto sign = uint16_t((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {  // NaN: keep the payload's top bits, force quiet
    bits = uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  } else if (magnitude >= 0x47800000u) {  // 65536 and above, infinity
    bits = uint16_t(sign | 0x7c00u);
  } else if (magnitude < 0x38800000u) {                           // below 2^-14: a subnormal half, in units of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) + 0.5f;  // ulp of [0.5, 1) is 2^-24
    bits = uint16_t(sign | (std::bit_cast<uint32_t>(scaled) - std::bit_cast<uint32_t>(0.5f)));
  } else {
    const uint32_t odd = (magnitude >> 13) & 1u;
    bits = uint16_t(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
  }
}

f16::operator float() const {
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1fu, mantissa = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
  if (exponent == 0) {
    const float value = float(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

}  // namespace weft
