#include "weft/ops/rms_norm/params.h"
#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/rms_norm/metal.metal";

std::string kernel_name(const char* pass, DType x, DType w) { return join(pass, suffix_of(x), x != w ? suffix_of(w) : ""); }

}  // namespace

void rms_norm(Stream& stream, const RmsNormArgs& a) {
  const Rows x = as_rows(a.x, a.kOp, "x"), y = as_rows(a.y, a.kOp, "y");
  const Rows residual = a.residual ? as_rows(a.residual, a.kOp, "residual") : Rows{}, h = a.h ? as_rows(a.h, a.kOp, "h") : Rows{};
  const bool aligned = aligned16(a.x, x.stride) && aligned16(a.residual, residual.stride) && aligned16(a.h, h.stride) &&
                       aligned16(a.y, y.stride) && aligned16(a.w);
  const Kernel kernel{a.kOp, kFile, kernel_name("norm_rows", a.x.dtype, a.w.dtype), {constant(2, bool(a.residual))}};
  const int64_t width = size_of(a.x.dtype), moved = (a.residual ? 4 : 2) * width;
  const RowPlan plan =
      plan_rows(stream, kernel, x.columns, width, sharing_teams(x.rows, moved, size_of(a.w.dtype), 64, 4096), aligned, kLongRow);
  const RmsNormParams p{x.rows, x.stride, residual.stride, h.stride, y.stride, columns_of(a.kOp, x), plan.team, a.eps, 0};
  launch(stream, plan.kernel, plan.grid(), bind(a, {params(p)}));
}

void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), h = as_rows(a.h, a.kOp, "h"), dx = as_rows(a.dx, a.kOp, "dx");
  const Rows dh = a.dh ? as_rows(a.dh, a.kOp, "dh") : Rows{};
  const bool aligned =
      aligned16(a.dy, dy.stride) && aligned16(a.dh, dh.stride) && aligned16(a.h, h.stride) && aligned16(a.dx, dx.stride) && aligned16(a.w);
  const int64_t width = size_of(a.dy.dtype), moved = (a.dh ? 4 : 3) * width,
                shared = 2 * int64_t(sizeof(float)) + size_of(a.w.dtype);  // partial sums: written and read
  const auto named = [&](const char* pass) {
    return Kernel{a.kOp, kFile, kernel_name(pass, a.dy.dtype, a.w.dtype), {constant(2, bool(a.dh))}};
  };
  const int64_t teams = sharing_teams(dy.rows, moved, shared, 16, 1024);
  const RowPlan plan = plan_rows(stream, named("norm_rows_backward"), dy.columns, width, teams, aligned);
  const int64_t P = plan.held ? teams : sharing_teams(dy.rows, moved, shared, 1, 1024);
  const Kernel slopes_kernel = holding(named("row_slopes"), 0, aligned);
  const int team = plan.held ? plan.team : threads_of(stream, slopes_kernel, plan.threads);
  const RmsNormBackwardParams p{dy.rows, P, dy.stride, dh.stride, h.stride, dx.stride, columns_of(a.kOp, dy), team};
  const bool direct = !plan.held && P == 1;
  const auto partial = scratch(stream, direct ? 0 : P * dy.columns * int64_t(sizeof(float)));
  if (plan.held) {
    launch(stream, plan.kernel, plan.grid(), {in(a.dy), in(a.dh), in(a.h), in(a.w), in(a.rstd), out(a.dx), out(*partial), params(p)});
  } else {
    const auto slopes = scratch(stream, dy.rows * int64_t(sizeof(float)));
    launch(stream, slopes_kernel, {{teams_of(dy.rows), 1, 1}, team, 0}, {in(a.dy), in(a.h), in(a.w), in(a.rstd), out(*slopes), params(p)});
    launch(stream, holding(named("column_gradients"), 0, aligned), columns_grid(dy.columns, width, P),
           {in(a.dy), in(a.dh), in(a.h), in(a.w), in(a.rstd), in(*slopes), out(a.dx), direct ? out(a.dw) : out(*partial), params(p)});
  }
  if (!direct) sum_partials(stream, a.kOp, kFile, *partial, P, a.dw);
}

}  // namespace weft::metal
