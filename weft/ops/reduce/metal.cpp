#include "weft/ops/reduce/params.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/reduce/metal.metal";
constexpr int kThreads = 128;
constexpr int64_t kSegment = 16384;  // elements of a row to one team: 64 to each of 256 threads, so a long row fills many teams
constexpr int64_t kSimdRow = 512;    // the longest row that a simdgroup reduces: 16 elements a lane

const char* name_of(Reduction kind) { return kind == Reduction::sum ? "sum" : kind == Reduction::max ? "max" : "squares"; }

// One operand of a stage, or its result.
struct Stage {
  Argument memory;
  DType dtype;
  bool aligned;
};
Stage stage(const View& x, int64_t stride, int64_t other) { return {in(x), x.dtype, aligned16(x, stride) && aligned16(x, other)}; }

// terms: x holds values; else partial results.
void reduce_rows(Stream& stream, Reduction kind, bool terms, const Stage& x, int64_t stride, int64_t n, int64_t segments, int64_t outer,
                 const Stage& y) {
  const int team = n <= kSimdRow ? 32 : 256, threads = std::max(team, kThreads);
  const int64_t tasks = outer * segments, groups = (std::min<int64_t>(tasks, 1 << 20) * team + threads - 1) / threads;
  const ReduceRowsParams p{stride, n, kSegment, segments, tasks, team, x.aligned};
  launch(stream, {ReduceArgs::kOp, kFile, join("rows_", name_of(kind), suffix_of(x.dtype), suffix_of(y.dtype)), {constant(0, terms)}},
         {.groups = {groups, 1, 1}, .threads = threads}, {x.memory, y.memory, params(p)});
}

void reduce_columns(Stream& stream, Reduction kind, bool terms, const Stage& x, const ReduceSpan& s, int64_t chunks, const Stage& y) {
  const int64_t per = 16 / size_of(x.dtype), vectors = (s.inner + per - 1) / per;
  const ReduceColumnsParams p{s.outer,          s.n,      s.inner, s.outer_stride, s.stride, chunks, (s.n + chunks - 1) / chunks,
                              int32_t(vectors), x.aligned};
  launch(stream, {ReduceArgs::kOp, kFile, join("columns_", name_of(kind), suffix_of(x.dtype), suffix_of(y.dtype)), {constant(0, terms)}},
         {.groups = {(s.outer * chunks * vectors + kThreads - 1) / kThreads, 1, 1}, .threads = kThreads}, {x.memory, y.memory, params(p)});
}

// Chunks of n rows, by n alone: 64 of f32 rows, 128 of bf16, so that partial results are 1 / 32 of the bytes read.
int64_t chunks_of(int64_t n, DType dtype) { return std::clamp<int64_t>(n / (256 / size_of(dtype)), 1, 256); }

}  // namespace

void reduce(Stream& stream, const ReduceArgs& a) {
  const ReduceSpan s = reduce_span(a.x, a.axis, a.kOp, "x");
  if (s.outer == 0 || s.inner == 0) return;
  const Stage x = stage(a.x, s.outer_stride, s.inner > 1 ? s.stride : 0), y{out(a.y), a.y.dtype, false};
  if (s.inner == 1) {
    const int64_t segments = std::max<int64_t>(1, (s.n + kSegment - 1) / kSegment);
    if (segments == 1) return reduce_rows(stream, a.kind, true, x, s.outer_stride, s.n, 1, s.outer, y);
    check(segments <= kSegment, a.kOp, "an axis of ", s.n, " elements is longer than this device takes");
    const auto partial = scratch(stream, s.outer * segments * int64_t(sizeof(float)));
    reduce_rows(stream, a.kind, true, x, s.outer_stride, s.n, segments, s.outer, {out(*partial), DType::f32, false});
    return reduce_rows(stream, a.kind, false, {in(*partial), DType::f32, segments % 4 == 0}, segments, segments, 1, s.outer, y);
  }
  check(s.n <= (int64_t(1) << 36), a.kOp, "an axis of ", s.n, " elements is longer than this device takes");
  const int64_t chunks = chunks_of(s.n, a.x.dtype);
  if (chunks == 1) return reduce_columns(stream, a.kind, true, x, s, 1, y);
  const auto partial = scratch(stream, s.outer * chunks * s.inner * int64_t(sizeof(float)));
  reduce_columns(stream, a.kind, true, x, s, chunks, {out(*partial), DType::f32, false});
  reduce_columns(stream, a.kind, false, {in(*partial), DType::f32, s.inner % 4 == 0},
                 ReduceSpan{s.outer, chunks, s.inner, chunks * s.inner, s.inner}, 1, y);
}

void reduce_backward(Stream& stream, const ReduceBackwardArgs& a) {
  const ReduceSpan to = reduce_span(a.dx, a.axis, a.kOp, "dx"), from = a.kind == Reduction::sum ? to : reduce_span(a.x, a.axis, a.kOp, "x");
  if (to.outer * to.n * to.inner == 0) return;
  const bool is_max = a.kind == Reduction::max, rows = to.inner == 1;
  check(to.n <= (1 << 30), a.kOp, "an axis of ", to.n, " elements is longer than this device takes");
  const bool aligned =
      stage(a.dx, to.outer_stride, rows ? 0 : to.stride).aligned && (!a.x || stage(a.x, from.outer_stride, rows ? 0 : from.stride).aligned);
  const int64_t per = 16 / size_of(a.dx.dtype), vectors = (to.inner + per - 1) / per, chunks = is_max ? 1 : chunks_of(to.n, a.dx.dtype);
  const int team = to.n <= kSimdRow ? 32 : 256, threads = rows ? std::max(team, kThreads) : kThreads;
  const ReduceBackwardParams p{to.outer,
                               to.n,
                               to.inner,
                               from.outer_stride,
                               from.stride,
                               to.outer_stride,
                               to.stride,
                               chunks,
                               (to.n + chunks - 1) / chunks,
                               team,
                               int32_t(vectors),
                               aligned,
                               0};
  const int64_t wanted = rows ? std::min<int64_t>(to.outer, 1 << 20) * team : to.outer * chunks * vectors;
  const std::string name = join(rows ? "spread_rows_" : "spread_columns_", name_of(a.kind), suffix_of(a.dx.dtype), suffix_of(a.dy.dtype),
                                suffix_of(a.y ? a.y.dtype : DType::f32));
  launch(stream, {a.kOp, kFile, name, {}}, {.groups = {(wanted + threads - 1) / threads, 1, 1}, .threads = threads}, bind(a, {params(p)}));
}

}  // namespace weft::metal
