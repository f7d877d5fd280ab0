#include "weft/ops/route/params.h"
#include "weft/ops/route/route.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/route/metal.metal";

Grid grid_of(int64_t rows) { return {.groups = {(rows + 3) / 4, 1, 1}, .threads = 128}; }

}  // namespace

void route(Stream& stream, const RouteArgs& a) {
  const Rows logits = as_rows(a.logits, a.kOp, "logits");
  const RouteParams p{logits.rows, logits.stride, 0, columns_of(a.kOp, logits), int32_t(a.ids.shape.back()), a.of_chosen, 0};
  launch(stream, {a.kOp, kFile, join("route", suffix_of(a.logits.dtype)), {}}, grid_of(p.rows), bind(a, {params(p)}));
}

void route_backward(Stream& stream, const RouteBackwardArgs& a) {
  const Rows logits = as_rows(a.logits, a.kOp, "logits"), dlogits = as_rows(a.dlogits, a.kOp, "dlogits");
  const RouteParams p{logits.rows, logits.stride, dlogits.stride, columns_of(a.kOp, logits), int32_t(a.ids.shape.back()), a.of_chosen, 0};
  launch(stream, {a.kOp, kFile, join("route_backward", suffix_of(a.logits.dtype)), {}}, grid_of(p.rows),
         bind(a, {params(p), fault(stream)}));
}

}  // namespace weft::metal
