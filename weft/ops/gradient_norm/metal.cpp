#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/ops/gradient_norm/params.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {

// One dispatch a tensor, none of which waits for another (see adamw).
void gradient_norm(Stream& stream, const GradientNormArgs& a) {
  constexpr const char* kFile = "weft/ops/gradient_norm/metal.metal";
  constexpr int64_t kPiece = 32768;
  const auto pieces_of = [](const View& g) { return (g.numel() + kPiece - 1) / kPiece; };
  int64_t pieces = 0, before = 0;
  for (const View& g : a.grads) pieces += pieces_of(g);
  const auto partial = scratch(stream, pieces * int64_t(sizeof(float)));
  for (const View& g : a.grads) {
    const GradientNormPieceParams p{g.numel(), aligned16(g)};
    Argument to = out(*partial);
    to.offset += before * int64_t(sizeof(float));
    to.bytes = pieces_of(g) * int64_t(sizeof(float));
    launch(stream, {a.kOp, kFile, join("sum_piece", suffix_of(g.dtype)), {}}, {.groups = {pieces_of(g), 1, 1}, .threads = 256},
           {in(g), to, params(p)});
    before += pieces_of(g);
  }
  const GradientNormParams p{pieces, a.max_norm, 0};
  launch(stream, {a.kOp, kFile, "finish", {}}, {.groups = {1, 1, 1}, .threads = 256}, {in(*partial), out(a.norm), out(a.clip), params(p)});
}

}  // namespace weft::metal
