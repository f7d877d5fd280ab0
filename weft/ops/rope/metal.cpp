#include "weft/ops/rope/params.h"
#include "weft/ops/rope/rope.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {

void rope(Stream& stream, const RopeArgs& a) {
  constexpr int kThreads = 128;
  const int64_t B = a.x.shape[0], T = a.x.shape[1], H = a.x.shape[2], D = a.x.shape[3], half = a.cos.shape[1], N = 16 / size_of(a.x.dtype);
  const bool shared = !a.start || a.start.shape[0] == 1;
  const int64_t sharers = shared ? T : B * T, rows = shared ? B * H : H, pieces = (half + N - 1) / N + (D - 2 * half + N - 1) / N;
  if (sharers * rows * pieces == 0) return;
  // Rows at once: as many as fill a GPU, at most 16, so that neighbouring threads still read neighbouring bytes. Slices of about 64 rows:
  // the table is little beside them.
  const int64_t columns = sharers * pieces, filled = std::max<int64_t>(1, 32768 / columns), slices = (rows + 63) / 64;
  const int64_t slice = (rows + slices - 1) / slices, at_once = int64_t(std::bit_ceil(uint64_t(std::min({slice, filled, int64_t(16)}))));
  const auto whole = [&](const View& v) { return aligned16(v, v.strides[0]) && aligned16(v, v.strides[1]) && aligned16(v, v.strides[2]); };
  const bool aligned = whole(a.x) && whole(a.y) && half % N == 0 && aligned16(a.cos) && aligned16(a.sin);
  const RopeParams p{columns,
                     rows,
                     slice,
                     T,
                     a.cos.shape[0],
                     a.x.strides[0],
                     a.x.strides[1],
                     a.x.strides[2],
                     a.y.strides[0],
                     a.y.strides[1],
                     a.y.strides[2],
                     int32_t(H),
                     int32_t(D),
                     int32_t(half),
                     int32_t(pieces),
                     int32_t(kThreads / at_once),
                     shared,
                     a.inverse ? -1.0f : 1.0f,
                     0};
  const Kernel kernel{
      a.kOp,
      "weft/ops/rope/metal.metal",
      join("turn", suffix_of(a.x.dtype)),
      {constant(0, bool(a.start)), constant(1, a.pairs == RopePairs::interleaved), constant(2, aligned), constant(3, bool(a.positions))}};
  launch(stream, kernel, {.groups = {(columns + p.across - 1) / p.across, slices, 1}, .threads = kThreads},
         bind(a, {params(p), fault(stream)}));
}

}  // namespace weft::metal
