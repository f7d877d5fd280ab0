#include "weft/ops/gradient_squares/gradient_squares.h"
#include "weft/ops/gradient_squares/params.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {

static_assert(kMetalNormPiece == kNormPiece);

// One dispatch a tensor, none of which waits for another (see adamw).
void gradient_squares(Stream& stream, const GradientSquaresArgs& a) {
  int64_t before = 0;
  for (const View& g : a.grads) {
    const GradientSquaresParams p{g.numel(), aligned16(g)};
    const int64_t pieces = norm_pieces(g.numel());
    launch(stream, {a.kOp, "weft/ops/gradient_squares/metal.metal", join("sum_piece", suffix_of(g.dtype)), {}},
           {.groups = {pieces, 1, 1}, .threads = 256}, {in(g), out(part(a.squares, 0, before, before + pieces)), params(p)});
    before += pieces;
  }
}

}  // namespace weft::metal
