#include "weft/ops/expert_order/expert_order.h"
#include "weft/ops/expert_order/params.h"
#include "weft/tile/metal/launch.h"

namespace weft::metal {

void expert_order(Stream& stream, const ExpertOrderArgs& a) {
  const ExpertOrderParams p{int32_t(a.ids.numel()), int32_t(a.starts.numel() - 1)};
  launch(stream, {a.kOp, "weft/ops/expert_order/metal.metal", "sort_by_expert", {}}, {.groups = {p.E, 1, 1}, .threads = 256},
         bind(a, {params(p), fault(stream)}));
}

}  // namespace weft::metal
