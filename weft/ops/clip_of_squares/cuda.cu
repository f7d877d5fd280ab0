#include "weft/ops/clip_of_squares/clip_of_squares.h"
#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/launch.h"

namespace weft::cuda {
namespace {

// Equation: norm = sqrt(sum of squares), clip = min(1, max_norm / (norm + 1e-6)).
// Layout:   squares [P]; norm, clip scalars.
// Order:    one block; thread t adds pieces t, t + 1024, ..., then the block (group.cuh).
// Requires: 1024 threads. No pieces: norm 0. Without a max_norm above 0 clip is 1; a NaN shows in both.
// Traffic:  one read of squares.
__global__ void add_pieces(const float* squares, int64_t count, float max_norm, float* norm, float* clip) {
  Group<1024> group;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += 1024) sum += squares[i];
  const float total = sqrtf(group.sum(sum)), ratio = max_norm / (total + 1e-6f);
  if (threadIdx.x > 0) return;
  *norm = total;
  *clip = max_norm <= 0 || ratio > 1 ? 1.0f : ratio;  // a NaN is not above 1: it stays
}

}  // namespace

void clip_of_squares(Stream& stream, const ClipOfSquaresArgs& a) {
  const Launch launch(stream, a.kOp, {&a.squares});
  launch(1, 1024, 0, add_pieces, data<float>(a.squares), a.squares.numel(), a.max_norm, data<float>(a.norm), data<float>(a.clip));
}

}  // namespace weft::cuda
