// Launches the kernels of rms_norm and layer_norm on Metal (metal.metal.h). `file` is the op's metal.metal.
#pragma once

#include "weft/ops/row_norm/params.h"
#include "weft/ops/row_norm/row_norm.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {

// A team reads w (and b), and writes and reads a partial row of each gradient of the weights: sharing_teams keeps that to 1/32 of
// what the rows move, with at least so many teams, which fill the GPU, and at most so many, which bound the partial rows.
inline constexpr int64_t kFewestNormTeams = 64, kMostNormTeams = 4096;
inline constexpr int64_t kFewestGradientTeams = 16, kMostGradientTeams = 1024;

inline std::string norm_kernel(const char* name, const View& x, const View& w) {
  return join(name, suffix_of(x.dtype), x.dtype != w.dtype ? suffix_of(w.dtype) : "");
}

inline void norm_rows(Stream& stream, const char* op, const char* file, const RowNormArgs& a) {
  const Rows x = as_rows(a.x, op, "x"), y = as_rows(a.y, op, "y");
  const Rows residual = a.residual ? as_rows(a.residual, op, "residual") : Rows{}, h = a.h ? as_rows(a.h, op, "h") : Rows{};
  const bool aligned = aligned16(a.x, x.stride) && aligned16(a.residual, residual.stride) && aligned16(a.h, h.stride) &&
                       aligned16(a.y, y.stride) && aligned16(a.w) && aligned16(a.b);
  const Kernel kernel{op, file, norm_kernel("norm_rows", a.x, a.w), {constant(2, bool(a.residual)), constant(3, bool(a.b))}};
  const int64_t width = size_of(a.x.dtype), moved = (a.residual ? 4 : 2) * width, shared = (a.b ? 2 : 1) * size_of(a.w.dtype);
  const int64_t teams = sharing_teams(x.rows, moved, shared, kFewestNormTeams, kMostNormTeams);
  const RowPlan plan = plan_rows(stream, kernel, x.columns, width, teams, aligned, kLongRow);
  const RowNormParams p{x.rows, x.stride, residual.stride, h.stride, y.stride, columns_of(op, x), plan.team, a.eps, 0};
  launch(stream, plan.kernel, plan.grid(), bind(a, {params(p)}));
}

// Rows that a team holds take one kernel. Longer ones take two: row_sums for the sums of each row, then column_gradients.
inline void norm_rows_backward(Stream& stream, const char* op, const char* file, const RowNormBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, op, "dy"), h = as_rows(a.h, op, "h"), dx = as_rows(a.dx, op, "dx");
  const Rows dh = a.dh ? as_rows(a.dh, op, "dh") : Rows{};
  const bool aligned =
      aligned16(a.dy, dy.stride) && aligned16(a.dh, dh.stride) && aligned16(a.h, h.stride) && aligned16(a.dx, dx.stride) && aligned16(a.w);
  const int64_t width = size_of(a.dy.dtype), moved = (a.dh ? 4 : 3) * width,
                shared = (a.db ? 4 : 2) * int64_t(sizeof(float)) + size_of(a.w.dtype);  // partial sums: written and read
  const auto named = [&](const char* name) {
    return Kernel{op, file, norm_kernel(name, a.dy, a.w), {constant(2, bool(a.dh)), constant(3, bool(a.db))}};
  };
  const int64_t teams = sharing_teams(dy.rows, moved, shared, kFewestGradientTeams, kMostGradientTeams);
  const RowPlan plan = plan_rows(stream, named("norm_rows_backward"), dy.columns, width, teams, aligned);
  const int64_t P = plan.held ? teams : sharing_teams(dy.rows, moved, shared, 1, kMostGradientTeams);
  const Kernel sums_kernel = holding(named("row_sums"), 0, aligned);
  const int team = plan.held ? plan.team : threads_of(stream, sums_kernel, plan.threads);
  const RowNormBackwardParams p{dy.rows, P, dy.stride, dh.stride, h.stride, dx.stride, columns_of(op, dy), team};
  const bool direct = !plan.held && P == 1;  // no partial rows
  const int64_t bytes = direct ? 0 : P * dy.columns * int64_t(sizeof(float));
  const auto dw = scratch(stream, bytes), db = scratch(stream, a.db ? bytes : 0);
  const Argument dw_sums = direct ? out(a.dw) : out(*dw), db_sums = !a.db ? nothing() : direct ? out(a.db) : out(*db);
  if (plan.held) {
    launch(stream, plan.kernel, plan.grid(),
           {in(a.dy), in(a.dh), in(a.h), in(a.w), in(a.mean), in(a.rstd), out(a.dx), dw_sums, db_sums, params(p)});
  } else {
    const bool centred = bool(a.mean);
    const int64_t row_bytes = dy.rows * int64_t(sizeof(float));
    const auto mean_g = scratch(stream, centred ? row_bytes : 0), projection = scratch(stream, row_bytes);
    launch(stream, sums_kernel, {{teams_of(dy.rows), 1, 1}, team, 0},
           {in(a.dy), in(a.h), in(a.w), in(a.mean), in(a.rstd), centred ? out(*mean_g) : nothing(), out(*projection), params(p)});
    launch(stream, holding(named("column_gradients"), 0, aligned), columns_grid(dy.columns, width, P),
           {in(a.dy), in(a.dh), in(a.h), in(a.w), in(a.mean), in(a.rstd), centred ? in(*mean_g) : nothing(), in(*projection), out(a.dx),
            dw_sums, db_sums, params(p)});
  }
  if (direct) return;
  sum_partials(stream, op, file, *dw, P, a.dw);
  if (a.db) sum_partials(stream, op, file, *db, P, a.db);
}

}  // namespace weft::metal
