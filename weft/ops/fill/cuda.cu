#include "weft/ops/fill/fill.h"
#include "weft/tile/cuda/launch.h"
#include "weft/tile/cuda/strided.cuh"

namespace weft::cuda {
namespace {

// Equation: out = value.
// Layout:   any strides, merged into as few axes as there are. T is any type of the element's size.
// Order:    no sums; one element a thread, threads stride over the tensor.
// Requires: no stride 0 (the contract's).
// Traffic:  one write of each element.
template <class T>
__global__ void strided(T* out, StridedAxes axes, int64_t count, T value) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    int64_t at, unused;
    axes.offsets(i, at, unused);
    out[at] = value;
  }
}

template <class T>
void run(Stream& stream, const FillArgs& a, T value) {
  const int64_t count = a.out.numel();
  const Launch launch(stream, a.kOp, {&a.out});
  if (value == T(0) && a.out.contiguous() && count) {  // -0 differs from 0 in bits and compares equal only as a float: T is an integer
    return of(stream).enqueue(a.kOp, "zeroing",
                              [&](cudaStream_t s) { return cudaMemsetAsync(data<T>(a.out), 0, size_t(count) * sizeof(T), s); });
  }
  launch(blocks_for(stream, count, 256), 256, 0, strided<T>, data<T>(a.out), strided_axes(a.out.shape, a.out.strides, a.out.strides), count,
         value);
}

}  // namespace

void fill(Stream& stream, const FillArgs& args) {
  const float value = float(args.value);
  switch (args.out.dtype) {
    case DType::f32: return run(stream, args, std::bit_cast<uint32_t>(value));
    case DType::bf16: return run(stream, args, bf16(value).bits);
    case DType::f16: return run(stream, args, f16(value).bits);
    case DType::i32: return run(stream, args, uint32_t(int32_t(args.value)));
    case DType::u32: return run(stream, args, uint32_t(args.value));
    case DType::u8: return run(stream, args, uint8_t(args.value));
  }
}

}  // namespace weft::cuda
