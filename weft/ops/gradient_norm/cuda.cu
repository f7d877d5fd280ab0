#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/pieces.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kPiece = 32768;  // elements of a piece: 128 to a thread
constexpr int kMost = 96;                      // gradients to a launch: they fill a kernel's 4 KiB of parameters

struct Gradient {
  const void* at;
  int64_t count;
  bool narrow, aligned;  // narrow: bf16
};
using Gradients = Batch<Gradient, kMost>;
static_assert(sizeof(Gradients) < 3900);  // room for the other parameters

template <class T>
__device__ __forceinline__ float squares(const Gradient& g, int64_t first, int64_t last) {
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

// Equation: partial[piece] = sum of g^2 over the piece.
// Layout:   gradients packed; one float per piece of 32768 elements.
// Order:    by thread over its vectors, then over the block (group.cuh).
// Requires: nothing more.
// Traffic:  one read of every gradient.
__global__ void __launch_bounds__(kThreads) sum_pieces(const Gradients gradients, float* partial) {
  Group<kThreads> group;
  const int index = gradients.find(blockIdx.x);
  const Gradient& g = gradients.tensor[index];
  const int64_t first = int64_t(blockIdx.x - gradients.first[index]) * kPiece, last = first + kPiece < g.count ? first + kPiece : g.count;
  const float sum = group.sum(g.narrow ? squares<__nv_bfloat16>(g, first, last) : squares<float>(g, first, last));
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// Equation: norm = sqrt(sum of partial), clip = min(1, max_norm / (norm + 1e-6)).
// Layout:   partial [count]; norm, clip scalars.
// Order:    one block; thread t adds pieces t, t + 1024, ..., then the block (group.cuh).
// Requires: 1024 threads. Without a max_norm above 0 clip is 1; a NaN shows in both.
// Traffic:  one read of partial.
__global__ void finish(const float* partial, int64_t count, float max_norm, float* norm, float* clip) {
  Group<1024> group;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += 1024) sum += partial[i];
  const float total = sqrtf(group.sum(sum)), ratio = max_norm / (total + 1e-6f);
  if (threadIdx.x > 0) return;
  *norm = total;
  *clip = max_norm <= 0 || ratio > 1 ? 1.0f : ratio;  // a NaN is not above 1: it stays
}

}  // namespace

void gradient_norm(Stream& stream, const GradientNormArgs& a) {
  std::vector<Gradient> gradients;
  int64_t pieces = 0;
  for (const View& g : a.grads) {
    gradients.push_back({data<char>(g), g.numel(), g.dtype == DType::bf16, aligned16(data<char>(g))});
    pieces += (g.numel() + kPiece - 1) / kPiece;
  }
  const Scratch<float> partial(stream, pieces);
  const Launch launch(stream, a.kOp, {&a.norm});
  in_batches<Gradient, kMost>(
      gradients, kPiece, [](const Gradient& g) { return g.count; },
      [&](const Gradients& batch, unsigned count, unsigned before) {
        launch(count, kThreads, 0, sum_pieces, batch, partial.data() + before);
      });
  launch(1, 1024, 0, finish, partial.data(), pieces, a.max_norm, data<float>(a.norm), data<float>(a.clip));
}

}  // namespace weft::cuda
