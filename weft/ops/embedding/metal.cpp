#include "weft/ops/embedding/embedding.h"
#include "weft/ops/embedding/params.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/embedding/metal.metal";

const char* id_suffix(const View& ids) { return ids.dtype == DType::u32 ? "_u32" : "_i32"; }

// Keys and the positions they came from.
struct Pairs {
  std::shared_ptr<Buffer> keys, positions;
};

Pairs new_pairs(Stream& stream, int64_t count) {
  const int64_t bytes = count * int64_t(sizeof(uint32_t));
  return {scratch(stream, bytes), scratch(stream, bytes)};
}

// Sorts by the lowest `bits` bits of the keys, four to a pass.
Pairs sorted(Stream& stream, const char* op, Pairs from, int64_t count, int bits) {
  constexpr int64_t kBlock = 2048, kDigits = 16;
  const int64_t blocks = (count + kBlock - 1) / kBlock;
  const auto counts = scratch(stream, kDigits * blocks * int64_t(sizeof(uint32_t)));
  Pairs to = new_pairs(stream, count);
  const Grid all{.groups = {blocks, 1, 1}, .threads = 256}, one{.groups = {1, 1, 1}, .threads = 256};
  for (int shift = 0; shift < bits; shift += 4) {
    const SortParams p{count, blocks, shift, 0};
    launch(stream, {op, kFile, "count_digits", {}}, all, {in(*from.keys), out(*counts), params(p)});
    launch(stream, {op, kFile, "sum_counts", {}}, one, {out(*counts), params(p)});
    launch(stream, {op, kFile, "move_keys", {}}, all, {in(*from.keys), in(*from.positions), in(*counts), out(*to.keys), out(*to.positions), params(p)});
    std::swap(from, to);
  }
  return from;
}

}  // namespace

void embedding(Stream& stream, const EmbeddingArgs& a) {
  const Rows w = as_rows(a.w, a.kOp, "w"), y = as_rows(a.y, a.kOp, "y");
  const EmbeddingParams p{y.rows, w.rows, w.stride, y.stride, columns_of(a.kOp, y), aligned16(a.w, w.stride) && aligned16(a.y, y.stride)};
  launch(stream, {a.kOp, kFile, join("gather", suffix_of(a.w.dtype), id_suffix(a.ids)), {}}, {.groups = {(y.rows + 3) / 4, 1, 1}, .threads = 128},
         {in(a.w), in(a.ids), out(a.y), params(p), fault(stream)});
}

void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), dw = as_rows(a.dw, a.kOp, "dw");
  const int64_t P = a.ids.numel(), V = dw.rows, C = columns_of(a.kOp, dw);
  check(P < (int64_t(1) << 31) && V < (int64_t(1) << 31), a.kOp, "cannot sort ", P, " ids of ", V);
  const EmbeddingBackwardParams p{P, V, dy.stride, dw.stride, int32_t(C), aligned16(a.dy, dy.stride) && aligned16(a.dw, dw.stride)};
  const Pairs pairs = new_pairs(stream, P);
  launch(stream, {a.kOp, kFile, join("prepare", id_suffix(a.ids)), {}}, {.groups = {(P + 255) / 256, 1, 1}, .threads = 256},
         {in(a.ids), out(*pairs.keys), out(*pairs.positions), params(p), fault(stream)});
  if (C == 0) return;
  const Pairs runs = sorted(stream, a.kOp, pairs, P, std::bit_width(uint64_t(V)));
  const int64_t chunks = P / 256;
  const auto partial = scratch(stream, chunks * C * int64_t(sizeof(float)));
  launch(stream, {a.kOp, kFile, join("sum_chunks", suffix_of(a.dy.dtype)), {}}, {.groups = {(chunks + 3) / 4, (C + 255) / 256, 1}, .threads = 128},
         {in(a.dy), in(*runs.keys), in(*runs.positions), out(*partial), params(p)});
  launch(stream, {a.kOp, kFile, join("sum_rows", suffix_of(a.dy.dtype)), {constant(0, a.accumulate)}}, {.groups = {(V + 15) / 16, 1, 1}, .threads = 128},
         {in(a.dy), in(*runs.keys), in(*runs.positions), in(*partial), out(a.dw), params(p)});
}

}  // namespace weft::metal
