#include <metal_stdlib>

#include "weft/tile/metal/strided.metal.h"

using namespace metal;
using namespace weft;

// Equation: out = value.
// Layout:   any strides, merged into as few axes as there are. T is any type of the element's size.
// Order:    no sums; one element a thread, threads stride over the tensor.
// Requires: no stride 0 (the contract's).
// Traffic:  one write of each element.
template <class T>
[[max_total_threads_per_threadgroup(256)]]
kernel void fill(device T* out [[buffer(0)]], constant StridedAxes& axes [[buffer(1)]], constant uint& value [[buffer(2)]],
                 uint thread_index [[thread_position_in_grid]], uint threads [[threads_per_grid]]) {
  for (long i = thread_index; i < axes.count; i += threads) out[strided_place(axes, i).a] = T(value);
}

#define WEFT_FILL(name, T) template [[host_name(name)]] kernel void fill<T>(device T*, constant StridedAxes&, constant uint&, uint, uint)
WEFT_FILL("fill_1", uchar);
WEFT_FILL("fill_2", ushort);
WEFT_FILL("fill_4", uint);
