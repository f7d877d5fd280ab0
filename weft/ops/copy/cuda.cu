#include "weft/ops/copy/copy.h"
#include "weft/tile/cuda/launch.h"
#include "weft/tile/cuda/strided.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

template <class From, class To>
__device__ __forceinline__ To convert(From x) {
  if constexpr (std::is_same_v<From, To>)
    return x;
  else
    return from_float<To>(to_float(x));
}

// Equation: to = cast(from), to nearest even.
// Layout:   one shape, any strides each, merged into as few axes as there are.
// Order:    no sums; one element a thread, threads stride over the tensor.
// Requires: no overlap, no stride 0 in `to` (the contract's).
// Traffic:  one read and one write of each element; coalesced where both have unit stride along the last axis.
template <class From, class To>
__global__ void strided(const From* from, To* to, StridedAxes axes, int64_t count) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    int64_t at_from, at_to;
    axes.offsets(i, at_from, at_to);
    to[at_to] = convert<From, To>(from[at_from]);
  }
}

// Elements of a thread: sixteen bytes of the narrower type.
template <class From, class To>
inline constexpr int kRowWidth = 16 / int(sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));

// Equation: to = cast(from), to nearest even.
// Layout:   [rows, columns], a stride between rows each; contiguous tensors are one row.
// Order:    no sums; kRowWidth elements of a row to a thread.
// Requires: rows of both aligned to sixteen bytes; no overlap.
// Traffic:  one read and one write of each element, sixteen bytes at a time.
template <class From, class To>
__global__ void by_rows(const From* from, int64_t from_stride, To* to, int64_t to_stride, int64_t rows, int64_t columns) {
  constexpr int kWidth = kRowWidth<From, To>;
  const int64_t first = (int64_t(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
  for (int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    const From* source = from + r * from_stride;
    To* target = to + r * to_stride;
    if (first + kWidth <= columns) {
      const auto in = load_chunk<From, kWidth>(source + first);
      Chunk<To, kWidth> out;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) out.at[i] = convert<From, To>(in.at[i]);
      store_chunk(out, target + first);
    } else {
      for (int64_t i = first; i < columns; ++i) target[i] = convert<From, To>(source[i]);
    }
  }
}

template <class From, class To>
bool aligned_rows(const StridedAxes& axes, const From* from, const To* to) {
  return axes.rank == 2 && axes.a[1] == 1 && axes.b[1] == 1 && aligned16(from) && aligned16(to) &&
         axes.a[0] * int64_t(sizeof(From)) % 16 == 0 && axes.b[0] * int64_t(sizeof(To)) % 16 == 0;
}

template <class From, class To>
void run(Stream& stream, const CopyArgs& a) {
  const int64_t count = a.to.numel();
  const From* from = data<From>(a.from);
  To* to = data<To>(a.to);
  const Launch launch(stream, a.kOp, {&a.from, &a.to});
  if (a.from.contiguous() && a.to.contiguous()) {
    if constexpr (std::is_same_v<From, To>) {
      if (count)
        of(stream).enqueue(a.kOp, "copying", [&](cudaStream_t s) {
          return cudaMemcpyAsync(to, from, size_t(count) * sizeof(To), cudaMemcpyDeviceToDevice, s);
        });
      return;
    } else if (aligned16(from) && aligned16(to)) {
      constexpr int64_t kElements = 256 * kRowWidth<From, To>;  // of a block
      return launch(unsigned((count + kElements - 1) / kElements), 256, 0, by_rows<From, To>, from, count, to, count, 1, count);
    }
  }
  const StridedAxes axes = strided_axes(a.to.shape, a.from.strides, a.to.strides);
  if (aligned_rows(axes, from, to)) {
    constexpr int64_t kElements = 128 * kRowWidth<From, To>;  // of a block
    const dim3 grid(unsigned((axes.extent[1] + kElements - 1) / kElements), unsigned(std::min<int64_t>(axes.extent[0], 65535)));
    return launch(grid, 128, 0, by_rows<From, To>, from, axes.a[0], to, axes.b[0], axes.extent[0], axes.extent[1]);
  }
  launch(blocks_for(stream, count, 256), 256, 0, strided<From, To>, from, to, axes, count);
}

}  // namespace

void copy(Stream& stream, const CopyArgs& args) {
  if (args.from.dtype == args.to.dtype) {  // the bits, whatever they mean
    switch (size_of(args.to.dtype)) {
      case 1: return run<uint8_t, uint8_t>(stream, args);
      case 2: return run<uint16_t, uint16_t>(stream, args);
      default: return run<uint32_t, uint32_t>(stream, args);
    }
  }
  dispatch_device<float, bf16, f16>(args.from.dtype, [&]<class From>() {
    dispatch_device<float, bf16, f16>(args.to.dtype, [&]<class To>() {
      if constexpr (!std::is_same_v<From, To>) run<From, To>(stream, args);
    });
  });
}

}  // namespace weft::cuda
