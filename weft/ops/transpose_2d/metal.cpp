#include "weft/ops/transpose_2d/params.h"
#include "weft/ops/transpose_2d/transpose_2d.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {

void transpose_2d(Stream& stream, const Transpose2dArgs& a) {
  constexpr int64_t kTile = 64;
  const int rank = a.x.rank();
  const int64_t B = rank == 3 ? a.x.shape[0] : 1, M = a.x.shape[rank - 2], N = a.x.shape[rank - 1];
  TransposeParams p{M, N, a.x.strides[rank - 2], a.y.strides[rank - 2], rank == 3 ? a.x.strides[0] : 0, rank == 3 ? a.y.strides[0] : 0,
                    0, 0};
  p.aligned = aligned16(a.x, p.x_stride) && aligned16(a.x, p.x_batch) && aligned16(a.y, p.y_stride) && aligned16(a.y, p.y_batch);
  launch(stream, {a.kOp, "weft/ops/transpose_2d/metal.metal", join("transpose_", size_of(a.x.dtype)), {}},
         {.groups = {(N + kTile - 1) / kTile, (M + kTile - 1) / kTile, B}, .threads = 256}, bind(a, {params(p)}));
}

}  // namespace weft::metal
