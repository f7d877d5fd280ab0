#include "weft/ops/clip_of_squares/clip_of_squares.h"
#include "weft/ops/clip_of_squares/params.h"
#include "weft/tile/metal/launch.h"

namespace weft::metal {

void clip_of_squares(Stream& stream, const ClipOfSquaresArgs& a) {
  const ClipOfSquaresParams p{a.squares.numel(), a.max_norm, 0};
  launch(stream, {a.kOp, "weft/ops/clip_of_squares/metal.metal", "add_pieces", {}}, {.groups = {1, 1, 1}, .threads = 256},
         bind(a, {params(p)}));
}

}  // namespace weft::metal
