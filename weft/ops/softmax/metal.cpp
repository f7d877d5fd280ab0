#include "weft/ops/softmax/params.h"
#include "weft/ops/softmax/softmax.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/softmax/metal.metal";

}  // namespace

void softmax(Stream& stream, const SoftmaxArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  if (x.columns == 0) return;
  const Kernel kernel{a.kOp, kFile, join("softmax_rows", suffix_of(a.x.dtype)), {}};
  const RowPlan plan = plan_rows(stream, kernel, x.columns, size_of(a.x.dtype), teams_of(x.rows),
                                 aligned16(a.x, x.stride) && aligned16(a.y, y.stride), kLongRow);
  const SoftmaxParams p{x.rows, x.stride, y.stride, columns_of(a.kOp, x), plan.team, a.scale, 0};
  launch(stream, plan.kernel, plan.grid(), bind(a, {params(p)}));
}

void softmax_backward(Stream& stream, const SoftmaxBackwardArgs& a) {
  const Rows y = as_rows(a.y, a.kOp, "y"), dy = as_rows(a.dy, a.kOp, "dy"), dx = as_rows(a.dx, a.kOp, "dx");
  if (y.columns == 0) return;
  const bool aligned = aligned16(a.y, y.stride) && aligned16(a.dy, dy.stride) && aligned16(a.dx, dx.stride);
  const Kernel kernel{a.kOp, kFile, join("softmax_rows_backward", suffix_of(a.y.dtype)), {}};
  const RowPlan plan = plan_rows(stream, kernel, y.columns, size_of(a.y.dtype), teams_of(y.rows), aligned, kLongRow);
  const SoftmaxBackwardParams p{y.rows, y.stride, dy.stride, dx.stride, columns_of(a.kOp, y), plan.team, a.scale, 0};
  launch(stream, plan.kernel, plan.grid(), bind(a, {params(p)}));
}

}  // namespace weft::metal
