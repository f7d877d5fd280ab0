#include "weft/ops/embedding/embedding.h"
#include "weft/ops/embedding/params.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/embedding/metal.metal";

const char* id_suffix(const View& ids) { return ids.dtype == DType::u32 ? "_u32" : "_i32"; }

}  // namespace

void embedding(Stream& stream, const EmbeddingArgs& a) {
  const Rows w = as_rows(a.w, a.kOp, "w"), y = as_rows(a.y, a.kOp, "y");
  const EmbeddingParams p{y.rows, w.rows, w.stride, y.stride, columns_of(a.kOp, y), aligned16(a.w, w.stride) && aligned16(a.y, y.stride)};
  launch(stream, {a.kOp, kFile, join("gather", suffix_of(a.w.dtype), id_suffix(a.ids)), {}},
         {.groups = {(y.rows + 3) / 4, 1, 1}, .threads = 128}, bind(a, {params(p), fault(stream)}));
}

void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), dw = as_rows(a.dw, a.kOp, "dw");
  const int64_t P = a.ids.numel(), V = dw.rows, C = columns_of(a.kOp, dw);
  check(P < (int64_t(1) << 31) && V < (int64_t(1) << 31), a.kOp, "cannot sort ", P, " ids of ", V);
  const bool narrow =
      P > 2048 && V < (int64_t(1) << 20);  // an id and a position within a segment fit into 32 bits, and segments are longer for it
  const int64_t segment = narrow ? 4096 : 2048, segments = (P + segment - 1) / segment, chunks = P / int64_t(kChunk);
  const EmbeddingBackwardParams p{P,
                                  V,
                                  dy.stride,
                                  dw.stride,
                                  int32_t(C),
                                  aligned16(a.dy, dy.stride) && aligned16(a.dw, dw.stride),
                                  int32_t(std::bit_width(uint64_t(V))),
                                  int32_t(segment)};
  const auto order = scratch(stream, P * int64_t(sizeof(uint16_t))),
             starts = scratch(stream, segments * (V + 1) * int64_t(sizeof(uint16_t)));
  const auto chunk_ids = scratch(stream, chunks * int64_t(sizeof(uint32_t))),
             partial = scratch(stream, chunks * C * int64_t(sizeof(float)));
  launch(stream, {a.kOp, kFile, join("sort_segments", id_suffix(a.ids), narrow ? "_short" : "_long"), {}},
         {.groups = {segments, 1, 1}, .threads = 256}, {in(a.ids), out(*order), out(*starts), out(*chunk_ids), params(p), fault(stream)});
  if (C == 0) return;
  launch(stream, {a.kOp, kFile, join("sum_chunks", suffix_of(a.dy.dtype)), {}},
         {.groups = {(chunks + 3) / 4, (C + 255) / 256, 1}, .threads = 128},
         {in(a.dy), in(*chunk_ids), in(*order), out(*partial), params(p)});
  launch(stream, {a.kOp, kFile, join("sum_rows", suffix_of(a.dy.dtype)), {constant(0, a.accumulate)}},
         {.groups = {(V + 3) / 4, 1, 1}, .threads = 128}, {in(a.dy), in(*starts), in(*order), in(*partial), out(a.dw), params(p)});
}

}  // namespace weft::metal
