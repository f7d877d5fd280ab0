#include <metal_stdlib>

#include "weft/tile/metal/scalar.metal.h"
#include "weft/tile/metal/strided.metal.h"

using namespace metal;
using namespace weft;

template <class From, class To>
inline To convert(From x) {
  return from_float<To>(to_float(x));
}
template <>
inline uchar convert<uchar, uchar>(uchar x) {
  return x;
}
template <>
inline ushort convert<ushort, ushort>(ushort x) {
  return x;
}
template <>
inline uint convert<uint, uint>(uint x) {
  return x;
}

// Equation: to = cast(from), to nearest even; the bits themselves where both have one dtype.
// Layout:   one shape, any strides each, merged into as few axes as there are.
// Order:    no sums; one element a thread, threads stride over the tensor.
// Requires: no overlap, no stride 0 in `to` (the contract's).
// Traffic:  one read and one write of each element.
template <class From, class To>
[[max_total_threads_per_threadgroup(256)]]
kernel void copy_strided(device const From* from [[buffer(0)]], device To* to [[buffer(1)]], constant StridedAxes& axes [[buffer(2)]],
                         uint thread_index [[thread_position_in_grid]], uint threads [[threads_per_grid]]) {
  for (long i = thread_index; i < axes.count; i += threads) {
    const StridedPlace at = strided_place(axes, i);
    to[at.b] = convert<From, To>(from[at.a]);
  }
}

// Equation: to = from, bit by bit.
// Layout:   both contiguous and of one dtype; pieces T of 1, 4 or 16 bytes, as large as the addresses allow.
// Order:    no sums; one piece a thread, threads stride over the pieces.
// Requires: no overlap, both aligned to T, count in pieces.
// Traffic:  one read and one write of each byte.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void copy_packed(device const T* from [[buffer(0)]], device T* to [[buffer(1)]], constant long& count [[buffer(2)]],
                        uint thread_index [[thread_position_in_grid]], uint threads [[threads_per_grid]]) {
  for (long i = thread_index; i < count; i += threads) to[i] = from[i];
}

#define WEFT_COPY(name, From, To) \
  template [[host_name(name)]] kernel void copy_strided<From, To>(device const From*, device To*, constant StridedAxes&, uint, uint)
WEFT_COPY("bits_1", uchar, uchar);
WEFT_COPY("bits_2", ushort, ushort);
WEFT_COPY("bits_4", uint, uint);
WEFT_COPY("f32_bf16", float, bfloat);
WEFT_COPY("f32_f16", float, half);
WEFT_COPY("bf16_f32", bfloat, float);
WEFT_COPY("bf16_f16", bfloat, half);
WEFT_COPY("f16_f32", half, float);
WEFT_COPY("f16_bf16", half, bfloat);

#define WEFT_COPY_PACKED(name, T) \
  template [[host_name(name)]] kernel void copy_packed<T>(device const T*, device T*, constant long&, uint, uint)
WEFT_COPY_PACKED("packed_1", uchar);
WEFT_COPY_PACKED("packed_4", uint);
WEFT_COPY_PACKED("packed_16", uint4);
