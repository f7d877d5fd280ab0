// Elements of tensors in Metal: f32, bf16 and f16, and the conversions between them: exact to f32, to nearest even from it.
//
// A bfloat is only ever loaded, stored and converted here; arithmetic is f32. Rounding to nearest even is written out in
// integers, since some chips were reported to truncate instead; NaN stays a quiet NaN of its sign.
#pragma once

#include <metal_stdlib>

namespace weft {

inline float to_float(float x) { return x; }
inline float to_float(bfloat x) { return as_type<float>(uint(as_type<ushort>(x)) << 16); }
inline float to_float(half x) { return float(x); }

template <class T>
inline T from_float(float x);
template <>
inline float from_float<float>(float x) {
  return x;
}
template <>
inline bfloat from_float<bfloat>(float x) {
  const uint bits = as_type<uint>(x);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const uint rounded = nan ? (bits | 0x400000u) : bits + (0x7fffu + ((bits >> 16) & 1u));
  return as_type<bfloat>(ushort(rounded >> 16));
}
template <>
inline half from_float<half>(float x) {
  return half(x);
}

}  // namespace weft
