#include "weft/ops/grouped_matmul/grouped_matmul.h"
#include "weft/ops/grouped_matmul/params.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/grouped_matmul/metal.metal";
constexpr int64_t kSide = 32;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

bool fours(const View& view, int64_t stride) {
  return (view.buffer->offset() + view.offset) % (4 * size_of(view.dtype)) == 0 && stride % 4 == 0;
}

}  // namespace

void grouped_matmul(Stream& stream, const GroupedMatmulArgs& g) {
  const Rows a = as_rows(g.a, g.kOp, "a"), c = as_rows(g.c, g.kOp, "c");
  const int64_t E = g.b.shape[0], P = c.rows, K = g.a.shape[1], N = c.columns;
  if (P * N == 0) return;
  const GroupedMatmulParams p{
      a.stride, 0, c.stride, int32_t(P), int32_t(E), int32_t(K), int32_t(N), fours(g.a, a.stride), fours(g.b, g.b.shape[2]), 0, 0};
  const bool wide = g.bias && g.bias.dtype == DType::f32;
  launch(stream,
         {g.kOp,
          kFile,
          join("grouped_multiply", suffix_of(g.a.dtype)),
          {constant(0, g.transpose_b), constant(1, bool(g.bias) && !wide), constant(2, wide)}},
         {.groups = {ceil_div(N, kSide), std::min(P, P / kSide + E), 1}, .threads = 128},
         {in(g.a), in(g.b), in(g.starts), out(g.c), g.bias && !wide ? in(g.bias) : nothing(), wide ? in(g.bias) : nothing(), params(p),
          fault(stream)});
}

void grouped_matmul_weights(Stream& stream, const GroupedMatmulWeightsArgs& g) {
  const Rows a = as_rows(g.a, g.kOp, "a"), b = as_rows(g.b, g.kOp, "b");
  const int64_t E = g.c.shape[0];
  const GroupedMatmulParams p{a.stride,
                              b.stride,
                              0,
                              int32_t(a.rows),
                              int32_t(E),
                              int32_t(a.columns),
                              int32_t(b.columns),
                              fours(g.a, a.stride),
                              fours(g.b, b.stride),
                              g.accumulate,
                              0};
  launch(stream, {g.kOp, kFile, join("grouped_weights", suffix_of(g.a.dtype)), {}},
         {.groups = {ceil_div(b.columns, kSide), ceil_div(a.columns, kSide), E}, .threads = 128}, bind(g, {params(p), fault(stream)}));
}

void grouped_sums(Stream& stream, const GroupedSumsArgs& g) {
  const Rows x = as_rows(g.x, g.kOp, "x");
  const int64_t E = g.y.shape[0];
  const GroupedMatmulParams p{x.stride, 0, 0, int32_t(x.rows), int32_t(E), 0, int32_t(x.columns), 0, 0, 0, 0};
  launch(stream, {g.kOp, kFile, join("grouped_sums", suffix_of(g.x.dtype)), {}},
         {.groups = {ceil_div(x.columns, 128), E, 1}, .threads = 128}, bind(g, {params(p), fault(stream)}));
}

}  // namespace weft::metal
