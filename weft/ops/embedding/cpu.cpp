#include "weft/ops/embedding/embedding.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/embedding/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class Id>
bool ids_in_range(Stream& stream, const View& ids, int64_t count) {
  const Id* id = data<Id>(ids);
  for (int64_t p = 0, n = ids.numel(); p < n; ++p)
    if (int64_t(id[p]) < 0 || int64_t(id[p]) >= count) {
      stream.report(join("id ", id[p], " at position ", p, " is out of range [0, ", count, ")"));
      return false;
    }
  return true;
}

// Equation: y[p] = w[ids[p]].
// Layout:   w [V, C] and y [P, C] with a row stride each, ids [P].
// Order:    no sums; groups of rows are the tasks.
// Requires: ids in [0, V); else a fault and no work.
// Traffic:  one read of ids and of each row that an id selects, one write of y.
template <class T, class Id>
void forward(Stream& stream, const EmbeddingArgs& a) {
  if (!ids_in_range<Id>(stream, a.ids, a.w.shape[0])) return;
  const Rows w = as_rows(a.w, a.kOp, "w"), y = as_rows(a.y, a.kOp, "y");
  for_each_row_group(stream, y.rows, y.columns, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t p = first; p < last; ++p)
      std::memcpy(data<T>(a.y) + p * y.stride, data<T>(a.w) + int64_t(data<Id>(a.ids)[p]) * w.stride, size_t(y.columns) * sizeof(T));
  });
}

constexpr int64_t kChunk = 256;  // positions summed in one go

// Positions sorted by id, stable: those of id i are position[start[i]] to position[start[i + 1]], ascending.
struct ById {
  Scratch<int64_t> start_, position_;

  template <class Id>
  ById(const Stream& stream, const Id* ids, int64_t count, int64_t V) : start_(stream, V + 2), position_(stream, count) {
    int64_t* start = start_.data();
    std::fill_n(start, V + 2, 0);
    for (int64_t p = 0; p < count; ++p) ++start[int64_t(ids[p]) + 2];
    for (int64_t i = 2; i < V + 2; ++i) start[i] += start[i - 1];
    for (int64_t p = 0; p < count; ++p) position_.data()[start[int64_t(ids[p]) + 1]++] = p;  // leaves the starts one place earlier
  }
  int64_t start(int64_t id) const { return start_.data()[id]; }
  int64_t count(int64_t id) const { return start(id + 1) - start(id); }
  const int64_t* positions() const { return position_.data(); }
};

// A chunk of one id's positions. A lone chunk goes straight to dw, others to a row of partial sums.
struct Chunk {
  int64_t id, first, last, partial;  // partial: -1 for a lone chunk
};

// sum (+)= the rows of dy at positions[0..n), added in order. By strips of 64 columns, which stay in registers.
template <class T>
void sum_rows(const EmbeddingBackwardArgs& a, const Rows& dy, const int64_t* positions, int64_t n, bool accumulate, float* sum) {
  constexpr int64_t kStrip = 4 * kBlock;
  for (int64_t start = 0; start < dy.columns; start += kStrip) {
    const auto at = [&](int64_t b) { return At{start + b * kBlock, std::clamp<int64_t>(dy.columns - start - b * kBlock, 0, kBlock)}; };
    F32x16 total[4];
    const T* first = data<T>(a.dy) + positions[0] * dy.stride;
    for (int64_t b = 0; b < 4; ++b) total[b] = at(b).load(first);
    for (int64_t k = 1; k < n; ++k) {
      const T* row = data<T>(a.dy) + positions[k] * dy.stride;
      for (int64_t b = 0; b < 4; ++b) total[b] = total[b] + at(b).load(row);
    }
    for (int64_t b = 0; b < 4; ++b) at(b).store(accumulate ? at(b).load(sum) + total[b] : total[b], sum);
  }
}

// Equation: dw[i] (+)= sum over p with ids[p] = i of dy[p].
// Layout:   dy [P, C] and dw [V, C] with a row stride each, ids [P].
// Order:    positions ascending within chunks of 256, then chunks in order (embedding.h); a chunk is a task, so an id
//           that occurs everywhere is work for several threads.
// Requires: ids in [0, V); else a fault and no work.
// Traffic:  one read of dy, one write of dw (and one read when accumulating); partial rows of long runs from cache.
template <class T, class Id>
void backward(Stream& stream, const EmbeddingBackwardArgs& a) {
  const int64_t V = a.dw.shape[0];
  if (!ids_in_range<Id>(stream, a.ids, V)) return;
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), dw = as_rows(a.dw, a.kOp, "dw");
  const int64_t P = a.ids.numel(), C = dw.columns;
  const ById sorted(stream, data<Id>(a.ids), P, V);
  const Scratch<Chunk> chunk_list(stream, std::min(V, P) + P / kChunk + 1);
  Chunk* chunks = chunk_list.data();
  int64_t count = 0, partials = 0;
  for (int64_t id = 0; id < V; ++id)
    for (int64_t n = sorted.count(id), k = 0; k < n; k += kChunk)
      chunks[count++] = {id, sorted.start(id) + k, sorted.start(id) + std::min(n, k + kChunk), n > kChunk ? partials++ : -1};
  const Scratch<float> partial(stream, partials * C);
  parallel_for(count, threads(stream), [&](int64_t i) HWY_ATTR {
    const Chunk& c = chunks[i];
    float* to = c.partial < 0 ? data<float>(a.dw) + c.id * dw.stride : partial.data() + c.partial * C;
    sum_rows<T>(a, dy, sorted.positions() + c.first, c.last - c.first, a.accumulate && c.partial < 0, to);
  });
  parallel_for(count, threads(stream), [&](int64_t i) HWY_ATTR {  // the first chunk of a long run adds up its partial rows
    const Chunk& c = chunks[i];
    if (c.partial < 0 || c.first != sorted.start(c.id)) return;
    const int64_t n = ceil_div(sorted.count(c.id), kChunk);
    float* to = data<float>(a.dw) + c.id * dw.stride;
    for_each_block(C, [&](At at) HWY_ATTR {
      F32x16 total = at.load(partial.data() + c.partial * C);
      for (int64_t k = 1; k < n; ++k) total = total + at.load(partial.data() + (c.partial + k) * C);
      at.store(a.accumulate ? at.load(to) + total : total, to);
    });
  });
  if (a.accumulate) return;
  for_each_row_group(stream, V, C, [&](int64_t first, int64_t last) HWY_ATTR {
    for (int64_t id = first; id < last; ++id)
      if (sorted.count(id) == 0) std::fill_n(data<float>(a.dw) + id * dw.stride, C, 0.0f);
  });
}

}  // namespace

void embedding(Stream& stream, const EmbeddingArgs& args) {
  dispatch<float, bf16>(args.w.dtype,
                        [&]<class T>() { dispatch<int32_t, uint32_t>(args.ids.dtype, [&]<class Id>() { forward<T, Id>(stream, args); }); });
}

void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) {
  dispatch<float, bf16>(
      args.dy.dtype, [&]<class T>() { dispatch<int32_t, uint32_t>(args.ids.dtype, [&]<class Id>() { backward<T, Id>(stream, args); }); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(embedding, EmbeddingArgs)
WEFT_CPU_KERNEL(embedding_backward, EmbeddingBackwardArgs)
#endif
