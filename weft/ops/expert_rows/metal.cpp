#include "weft/ops/expert_rows/expert_rows.h"

#include "weft/ops/expert_rows/params.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/expert_rows/metal.metal";

Grid grid_of(int64_t rows) { return {.groups = {(rows + 3) / 4, 1, 1}, .threads = 128}; }

ExpertRowsParams params_of(const char* op, const View& x, const View& y, int64_t tokens, int64_t rows, bool weighted) {
  const Rows a = as_rows(x, op, "x"), b = as_rows(y, op, "y");
  return {tokens,
          rows,
          a.stride,
          b.stride,
          tokens ? int32_t(rows / tokens) : 0,
          columns_of(op, a),
          aligned16(x, a.stride) && aligned16(y, b.stride),
          weighted};
}

Kernel kernel_of(const char* op, const char* name, DType dtype, bool weighted) {
  return {op, kFile, join(name, suffix_of(dtype)), {constant(0, weighted)}};
}

}  // namespace

void expert_rows(Stream& stream, const ExpertRowsArgs& a) {
  const ExpertRowsParams p = params_of(a.kOp, a.x, a.y, a.x.shape[0], a.y.shape[0], bool(a.weights));
  launch(stream, kernel_of(a.kOp, "gather_rows", a.x.dtype, bool(a.weights)), grid_of(p.rows), bind(a, {params(p), fault(stream)}));
}

void expert_sum(Stream& stream, const ExpertSumArgs& a) {
  const ExpertRowsParams p = params_of(a.kOp, a.x, a.y, a.y.shape[0], a.x.shape[0], bool(a.weights));
  launch(stream, kernel_of(a.kOp, "sum_rows", a.x.dtype, bool(a.weights)), grid_of(p.tokens), bind(a, {params(p), fault(stream)}));
}

void expert_dots(Stream& stream, const ExpertDotsArgs& a) {
  const ExpertRowsParams p = params_of(a.kOp, a.x, a.dy, a.dy.shape[0], a.x.shape[0], false);
  launch(stream, kernel_of(a.kOp, "dots_of_rows", a.x.dtype, false), grid_of(p.rows), bind(a, {params(p), fault(stream)}));
}

}  // namespace weft::metal
