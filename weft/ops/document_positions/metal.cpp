#include "weft/ops/document_positions/document_positions.h"
#include "weft/ops/document_positions/params.h"
#include "weft/tile/metal/launch.h"

namespace weft::metal {

void document_positions(Stream& stream, const DocumentPositionsArgs& a) {
  const DocumentPositionsParams p{int32_t(a.documents.numel()), int32_t(a.positions.numel())};
  launch(stream, {a.kOp, "weft/ops/document_positions/metal.metal", "positions_of", {}},
         {.groups = {(std::max(p.N, p.T) + 255) / 256, 1, 1}, .threads = 256}, bind(a, {params(p), fault(stream)}));
}

}  // namespace weft::metal
