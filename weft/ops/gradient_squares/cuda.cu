#include "weft/ops/gradient_squares/gradient_squares.h"
#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/pieces.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;  // 128 elements of a piece to a thread
constexpr int kMost = 96;      // gradients to a launch: they fill a kernel's 4 KiB of parameters

struct Gradient {
  const void* at;
  int64_t count;
  bool narrow, aligned;  // narrow: bf16
};
using Gradients = Batch<Gradient, kMost>;
static_assert(sizeof(Gradients) < 3900);  // room for the other parameters

template <class T>
__device__ __forceinline__ float sum_of_squares(const Gradient& g, int64_t first, int64_t last) {
  constexpr int kWidth = kPerVector<T>;
  const T* x = static_cast<const T*>(g.at);
  float sum = 0;
  for (int64_t i = first + int64_t(threadIdx.x) * kWidth; i < last; i += kThreads * kWidth) {
    const int left = last - i < kWidth ? int(last - i) : kWidth;
    const auto piece = g.aligned && left == kWidth ? load_chunk<T, kWidth>(x + i) : load_chunk<T, kWidth>(x + i, left, 0);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sum = fmaf(piece[j], piece[j], sum);
  }
  return sum;
}

// Equation: squares[p] = sum of g^2 over piece p.
// Layout:   gradients packed, squares [P].
// Order:    by thread over its vectors, then over the block (group.cuh).
// Requires: nothing more.
// Traffic:  one read of every gradient, one write of squares.
__global__ void __launch_bounds__(kThreads) sum_pieces(const Gradients gradients, float* squares) {
  Group<kThreads> group;
  const int index = gradients.find(blockIdx.x);
  const Gradient& g = gradients.tensor[index];
  const int64_t first = int64_t(blockIdx.x - gradients.first[index]) * kNormPiece,
                last = first + kNormPiece < g.count ? first + kNormPiece : g.count;
  const float sum = group.sum(g.narrow ? sum_of_squares<__nv_bfloat16>(g, first, last) : sum_of_squares<float>(g, first, last));
  if (threadIdx.x == 0) squares[blockIdx.x] = sum;
}

}  // namespace

void gradient_squares(Stream& stream, const GradientSquaresArgs& a) {
  std::vector<Gradient> gradients;
  for (const View& g : a.grads) gradients.push_back({data<char>(g), g.numel(), g.dtype == DType::bf16, aligned16(data<char>(g))});
  const Launch launch(stream, a.kOp, {&a.squares});
  in_batches<Gradient, kMost>(
      gradients, kNormPiece, [](const Gradient& g) { return g.count; },
      [&](const Gradients& batch, unsigned count, unsigned before) {
        launch(count, kThreads, 0, sum_pieces, batch, data<float>(a.squares) + before);
      });
}

}  // namespace weft::cuda
