// Rows are the queries that share a key/value head (Tq tokens by H / Hkv heads). A prompt has many: keys are the lanes, and
// each tile of the cache is read and transposed once for all rows that share it. A decode step has few, and the cache is
// read as stored, once, straight into registers: keys for dot products, then values for weighted sums.
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/tile/cpu/heads.h"
#include "weft/tile/cpu/scratch_slots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/kv_attention/cpu/kv_attention.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/tile_matmul.h"
#include "weft/tile/cpu/tile_rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t kKeys = 64;       // a tile of the cache
constexpr int64_t kRows = 64;       // of one task, at most
constexpr int64_t kChunk = 512;     // positions of one task if the cache is cut
constexpr int64_t kDecodeRows = 8;  // at most so many rows skip the tiles: a decode step

// The work as tasks of (b, key head, block of rows, chunk of positions). One block of rows (decode) makes few tasks, so then the cache is
// cut; a long prompt has blocks enough. The cut depends on shapes and start, never on threads.
struct Work {
  int64_t B, Tq, H, Hkv, D, group, rows, blocks, width, chunk, chunks;

  explicit Work(const KvAttentionArgs& a)
      : B(a.q.shape[0]),
        Tq(a.q.shape[1]),
        H(a.q.shape[2]),
        Hkv(a.k_cache.shape[2]),
        D(a.q.shape[3]),
        group(H / Hkv),
        rows(Tq * group),
        blocks(ceil_div(rows, kRows)),
        width(ceil_div(D, kBlock) * kBlock) {
    int64_t longest = 0;
    for (int64_t b = 0; b < B; ++b) longest = std::max(longest, data<int32_t>(a.start)[b] + Tq);
    chunk = blocks == 1 ? kChunk : longest;
    chunks = ceil_div(longest, chunk);
  }
  int64_t held() const { return std::min(kRows, rows); }  // rows of a partial result
  int64_t partial() const { return ceil_div(held() * (width + 2), kBlock) * kBlock; }
  bool streaming() const { return Tq == 1 && group <= kDecodeRows && D % kBlock == 0; }
};

// The rows of one task and how many positions each attends to.
struct Queries {
  int64_t b, hk, first, count;
  int64_t start, group;

  int64_t token(int64_t r) const { return (first + r) / group; }
  int64_t head(int64_t r) const { return hk * group + (first + r) % group; }
  int64_t visible(int64_t r) const { return start + token(r) + 1; }
};

Queries queries_of(const Work& w, const KvAttentionArgs& a, int64_t b, int64_t hk, int64_t block) {
  return {b, hk, block * kRows, std::min(kRows, w.rows - block * kRows), data<int32_t>(a.start)[b], w.group};
}

// The result of one chunk, or of several in order: sums relative to a maximum. o [rows][width], m and l [rows].
struct Partial {
  float *o, *m, *l;

  Partial(float* at, const Work& w) : o(at), m(at + w.held() * w.width), l(m + w.held()) {}
};

// One row of a tile: scores become p relative to the new maximum, and the row's sums follow it.
void online_softmax_row(const Work& w, int64_t keys, float* scores, float* o, float* m, float* l) {
  const float most = row_max(keys, [&](At at) HWY_ATTR { return at.load(scores); });
  const float before = *m;
  *m = before < most || most != most ? most : before;
  const float base = *m == -HUGE_VALF ? 0.0f : *m;  // all scores -inf so far: p = 0, not NaN
  const float factor = exp(before - base);
  const float sum = row_sum(keys, [&](At at) HWY_ATTR {
    const F32x16 p = exp(at.load(scores) - splat(base));
    at.store(p, scores);
    return p;
  });
  *l = *l * factor + sum;
  for (int64_t d = 0; d < w.width; d += kBlock) store(load(o + d) * splat(factor), o + d);
}

// The positions [begin, end) for these queries: at least the last query attends to every position below end.
template <class T>
void attend(const Work& w, const KvAttentionArgs& a, const Queries& rows, int64_t begin, int64_t end, ScratchSlots::Lease& lease,
            Partial out) {
  const Heads<const T> q = heads<T>(a.q), k = heads<T>(a.k_cache), v = heads<T>(a.v_cache);
  float *qr = lease.take(kRows * w.width), *kr = lease.take(kKeys * w.width), *kt = lease.take(kKeys * w.width),
        *vr = lease.take(kKeys * w.width);
  float* scores = lease.take(kRows * kKeys);
  for (int64_t r = 0; r < rows.count; ++r) load_tile(q.row(rows.b, rows.token(r), rows.head(r)), 0, 1, w.D, 1, a.scale, qr + r * w.width);
  std::fill_n(out.o, rows.count * w.width, 0.0f);
  std::fill_n(out.m, rows.count, -HUGE_VALF);
  std::fill_n(out.l, rows.count, 0.0f);
  for (int64_t j0 = begin; j0 < end; j0 += kKeys) {
    const int64_t keys = std::min(kKeys, end - j0), lanes = ceil_div(keys, kBlock) * kBlock;
    load_tile(k.row(rows.b, j0, rows.hk), k.time, keys, w.D, lanes, 1, kr);
    load_tile(v.row(rows.b, j0, rows.hk), v.time, keys, w.D, keys, 1, vr);
    transpose(lanes, w.width, kr, w.width, 1, kt, kKeys);
    int64_t first = 0;
    while (rows.visible(first) <= j0) ++first;
    tile_matmul({.m = rows.count - first,
                 .n = lanes,
                 .k = w.D,
                 .a = qr + first * w.width,
                 .a_row = w.width,
                 .a_step = 1,
                 .b = kt,
                 .b_row = kKeys,
                 .c = scores + first * kKeys,
                 .c_row = kKeys,
                 .add = false});
    // Rows that attend to equally many of these keys are batched: all of them, except in the last tiles of a prompt.
    for (int64_t next; first < rows.count; first = next) {
      const int64_t seen = std::min(keys, rows.visible(first) - j0);
      for (next = first; next < rows.count && std::min(keys, rows.visible(next) - j0) == seen; ++next)
        online_softmax_row(w, seen, scores + next * kKeys, out.o + next * w.width, out.m + next, out.l + next);
      tile_matmul({.m = next - first,
                   .n = w.width,
                   .k = seen,
                   .a = scores + first * kKeys,
                   .a_row = kKeys,
                   .a_step = 1,
                   .b = vr,
                   .b_row = w.width,
                   .c = out.o + first * w.width,
                   .c_row = w.width,
                   .add = true});
    }
  }
}

// Lane sums of q_r . k_j for kR queries and four keys, folded to four lanes a key: folded[r] is a block.
template <int kR, class T>
HWY_INLINE void multiply_four_keys(const Work& w, const float* q, const T* const (&k)[4], float* folded, int64_t folded_row) {
  F32x16 sum[kR][4];
  for (int r = 0; r < kR; ++r)
    for (int j = 0; j < 4; ++j) sum[r][j] = zero();
  for (int64_t d = 0; d < w.D; d += kBlock) {
    F32x16 key[4];
    for (int j = 0; j < 4; ++j) key[j] = load(k[j] + d);
    for (int r = 0; r < kR; ++r) {
      const F32x16 query = load(q + r * w.width + d);
      for (int j = 0; j < 4; ++j) sum[r][j] = fma(key[j], query, sum[r][j]);
    }
  }
  for (int r = 0; r < kR; ++r)
    store(fold_to_fours(fold_to_eights(sum[r][0], sum[r][2]), fold_to_eights(sum[r][1], sum[r][3])), folded + r * folded_row);
}

template <int kR, class T>
HWY_INLINE void multiply_four_keys_of_head(const Work& w, int64_t rows, const float* q, const T* const (&k)[4], float* folded,
                                           int64_t folded_row) {
  for (; rows >= kR; rows -= kR, q += kR * w.width, folded += kR * folded_row) multiply_four_keys<kR>(w, q, k, folded, folded_row);
  if constexpr (kR > 1)
    if (rows > 0) multiply_four_keys_of_head<kR - 1>(w, rows, q, k, folded, folded_row);
}

// scores[h][.] = q_h . k_j for the positions [begin, end) and all heads, sixteen at a time, of which i, i + 4, i + 8 and
// i + 12 are batched: their lane sums fold into one block. next(position, hk) is what is prefetched.
template <class T, class F>
void dot_products(const Work& w, const float* q, const Heads<const T>& k, int64_t b, int64_t begin, int64_t end, float* folded,
                  float* scores, F next) {
  constexpr int kQueries = kParts == 1 ? 4 : 1;  // that share four keys in registers
  const int64_t folded_row = 4 * kBlock;
  for (int64_t first = begin; first < end; first += kBlock) {
    for (int64_t i = 0; i < 4; ++i)
      for (int64_t hk = 0; hk < w.Hkv; ++hk) {
        const auto [row, stride] = next(first + 4 * i, hk);
        prefetch_rows(row, stride, 4, w.D);
        const auto key = [&](int64_t j) { return k.row(b, std::min(first + j, end - 1), hk); };  // a score past the end is not used
        const T* const keys[4] = {key(i), key(i + 4), key(i + 8), key(i + 12)};
        multiply_four_keys_of_head<kQueries>(w, w.group, q + hk * w.group * w.width, keys, folded + hk * w.group * folded_row + i * kBlock,
                                             folded_row);
      }
    for (int64_t h = 0; h < w.H; ++h) {
      const float* f = folded + h * folded_row;
      store(fold_to_ones(fold_to_twos(load(f), load(f + 2 * kBlock)), fold_to_twos(load(f + kBlock), load(f + 3 * kBlock))),
            scores + h * kChunk + first - begin);
    }
  }
}

// o[r][.] += sum over `count` positions of p[r][j] v_j, for kR queries and kB blocks. The first of them prefetches whole rows
// sixteen positions ahead.
template <int kR, int kB, bool kFetch, class T>
HWY_INLINE void add_values(const Work& w, const float* p, const T* v, int64_t v_row, int64_t count, float* o) {
  F32x16 sum[kR][kB];
  for (int r = 0; r < kR; ++r)
    for (int i = 0; i < kB; ++i) sum[r][i] = load(o + r * w.width + i * kBlock);
  for (int64_t j = 0; j < count; ++j, v += v_row) {
    if (kFetch) prefetch_rows(v + kBlock * v_row, v_row, 1, w.D);
    F32x16 value[kB];
    for (int i = 0; i < kB; ++i) value[i] = load(v + i * kBlock);
    for (int r = 0; r < kR; ++r) {
      const F32x16 weight = splat(p[r * kChunk + j]);
      for (int i = 0; i < kB; ++i) sum[r][i] = fma(weight, value[i], sum[r][i]);
    }
  }
  for (int r = 0; r < kR; ++r)
    for (int i = 0; i < kB; ++i) store(sum[r][i], o + r * w.width + i * kBlock);
}

template <int kR, bool kFetch, class T>
HWY_INLINE void add_values_to_rows(const Work& w, const float* p, const T* v, int64_t v_row, int64_t count, float* o) {
  constexpr int kB = kParts == 1 ? 4 : 1;
  int64_t d = 0;
  if (w.D >= kB * kBlock) add_values<kR, kB, kFetch>(w, p, v, v_row, count, o), d = kB * kBlock;
  for (; d + kB * kBlock <= w.D; d += kB * kBlock) add_values<kR, kB, false>(w, p, v + d, v_row, count, o + d);
  for (; d < w.D; d += kBlock) add_values<kR, 1, false>(w, p, v + d, v_row, count, o + d);
}

// kR rows at a time, then the rest; only the first prefetch rows of v.
template <int kR, bool kFetch, class T>
HWY_INLINE void add_values_of_head(const Work& w, int64_t rows, const float* p, const T* v, int64_t v_row, int64_t count, float* o) {
  int64_t r = 0;
  if (kFetch && rows >= kR) add_values_to_rows<kR, true>(w, p, v, v_row, count, o), r = kR;
  for (; r + kR <= rows; r += kR) add_values_to_rows<kR, false>(w, p + r * kChunk, v, v_row, count, o + r * w.width);
  if constexpr (kR > 1) {
    if (r == 0) return add_values_of_head<kR - 1, kFetch>(w, rows, p, v, v_row, count, o);
    if (r < rows) add_values_of_head<kR - 1, false>(w, rows - r, p + r * kChunk, v, v_row, count, o + r * w.width);
  }
}

// A decode step: the positions [begin, end) of one sequence, attended to by every head. A position's heads are side by side in
// memory, so they are the inner loop. out(hk) returns where the sums of a key head go.
template <class T, class F>
void attend_streaming(const Work& w, const KvAttentionArgs& a, int64_t b, int64_t begin, int64_t end, ScratchSlots::Lease& lease, F out) {
  const Heads<const T> q = heads<T>(a.q), k = heads<T>(a.k_cache), v = heads<T>(a.v_cache);
  float *qr = lease.take(w.H * w.width), *scores = lease.take(w.H * kChunk), *folded = lease.take(w.H * 4 * kBlock);
  for (int64_t h = 0; h < w.H; ++h) load_tile(q.row(b, 0, h), 0, 1, w.D, 1, a.scale, qr + h * w.width);
  const auto next = [&](int64_t j, int64_t hk) {  // sixteen positions ahead, then on to the values
    return j + kBlock < end ? std::pair{k.row(b, j + kBlock, hk), k.time} : std::pair{v.row(b, begin + j % kBlock, hk), v.time};
  };
  dot_products(w, qr, k, b, begin, end, folded, scores, next);
  for (int64_t hk = 0; hk < w.Hkv; ++hk) {
    const Partial sums = out(hk);
    std::fill_n(sums.o, w.group * w.width, 0.0f);
    std::fill_n(sums.m, w.group, -HUGE_VALF);
    std::fill_n(sums.l, w.group, 0.0f);
    for (int64_t r = 0; r < w.group; ++r)
      online_softmax_row(w, end - begin, scores + (hk * w.group + r) * kChunk, sums.o + r * w.width, sums.m + r, sums.l + r);
  }
  for (int64_t j = begin; j < end; j += kBlock)
    for (int64_t hk = 0; hk < w.Hkv; ++hk)
      add_values_of_head<4, true>(w, w.group, scores + hk * w.group * kChunk + j - begin, v.row(b, j, hk), v.time,
                                  std::min<int64_t>(kBlock, end - j), out(hk).o);
}

// Adds a later chunk to an earlier one, row by row.
void merge(const Work& w, int64_t count, const Partial& into, const Partial& from) {
  for (int64_t r = 0; r < count; ++r) {
    const float m = into.m[r] < from.m[r] ? from.m[r] : into.m[r];  // a NaN may be lost here, but not in l and o
    const float base = m == -HUGE_VALF ? 0.0f : m;
    const float keep = exp(into.m[r] - base), take = exp(from.m[r] - base);
    into.m[r] = m;
    into.l[r] = into.l[r] * keep + from.l[r] * take;
    float* o = into.o + r * w.width;
    const float* other = from.o + r * w.width;
    for (int64_t d = 0; d < w.width; d += kBlock) store(fma(load(other + d), splat(take), load(o + d) * splat(keep)), o + d);
  }
}

template <class T>
void finish(const Work& w, const KvAttentionArgs& a, const Queries& rows, const Partial& from) {
  const Heads<T> o = heads<T>(a.o);
  for (int64_t r = 0; r < rows.count; ++r)
    store_tile(from.o + r * w.width, 1, w.D, 1.0f / from.l[r], o.row(rows.b, rows.token(r), rows.head(r)), 0);
}

// The tasks of a prompt: (b, key head, block of rows, chunk).
template <class T>
void attend_tiles(Stream& stream, const Work& w, const KvAttentionArgs& a, float* partials) {
  const int64_t tasks = w.B * w.Hkv * w.blocks * w.chunks;
  ScratchSlots slots(stream, w.partial() + (kRows + 3 * kKeys) * w.width + kRows * kKeys, tasks);
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t c = task % w.chunks, block = w.blocks - 1 - task / w.chunks / w.Hkv / w.B;  // the longest first
    const Queries rows = queries_of(w, a, task / w.chunks / w.Hkv % w.B, task / w.chunks % w.Hkv, block);
    const int64_t end = rows.visible(rows.count - 1);
    if (c * w.chunk >= end) return;
    ScratchSlots::Lease lease(slots);
    const Partial out(w.chunks > 1 ? partials + task * w.partial() : lease.take(w.partial()), w);
    attend<T>(w, a, rows, c * w.chunk, std::min(end, (c + 1) * w.chunk), lease, out);
    if (w.chunks == 1) finish<T>(w, a, rows, out);
  });
}

// The tasks of a decode step: (b, chunk), all heads.
template <class T>
void attend_chunks(Stream& stream, const Work& w, const KvAttentionArgs& a, float* partials) {
  const int64_t tasks = w.B * w.chunks;
  ScratchSlots slots(stream, w.H * (w.width + kChunk + 4 * kBlock), tasks);
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    const int64_t b = task / w.chunks, c = task % w.chunks, end = data<int32_t>(a.start)[b] + 1;
    if (c * w.chunk >= end) return;
    ScratchSlots::Lease lease(slots);
    attend_streaming<T>(w, a, b, c * w.chunk, std::min(end, (c + 1) * w.chunk), lease,
                        [&](int64_t hk) { return Partial(partials + ((b * w.Hkv + hk) * w.chunks + c) * w.partial(), w); });
  });
}

// Equation: o_i = sum over j <= start + i of softmax(scale q_i . k_j)_j v_j.
// Layout:   q, o [B, Tq, H, D] and k_cache, v_cache [B, capacity, Hkv, D] with any strides but over D; start [B].
// Order:    tasks as Work defines; keys in order, with a running maximum from tile to tile; chunks are merged in order.
// Requires: 0 <= start <= capacity - Tq, else it is reported and nothing is written.
// Traffic:  the used part of the cache once per block of 64 rows (once in all when decoding); q and o once.
template <class T>
void launch(Stream& stream, const KvAttentionArgs& a) {
  const Work w(a);
  const bool merging = w.chunks > 1 || w.streaming();
  const Scratch<float> partials(stream, merging ? w.B * w.Hkv * w.blocks * w.chunks * w.partial() : 0);
  w.streaming() ? attend_chunks<T>(stream, w, a, partials.data()) : attend_tiles<T>(stream, w, a, partials.data());
  if (!merging) return;
  const bool alone = w.B * w.H * w.chunks < 256;                                       // less work than starting a second set of tasks
  parallel_for(w.B * w.Hkv, alone ? 1 : threads(stream), [&](int64_t pair) HWY_ATTR {  // chunks are merged only if blocks = 1
    const Queries rows = queries_of(w, a, pair / w.Hkv, pair % w.Hkv, 0);
    const Partial total(partials.data() + pair * w.chunks * w.partial(), w);
    for (int64_t c = 1; c * w.chunk < rows.visible(rows.count - 1); ++c)
      merge(w, rows.count, total, Partial(partials.data() + (pair * w.chunks + c) * w.partial(), w));
    finish<T>(w, a, rows, total);
  });
}

bool starts_in_range(Stream& stream, const KvAttentionArgs& a) {
  const int64_t Tq = a.q.shape[1], capacity = a.k_cache.shape[1];
  for (int64_t b = 0; b < a.q.shape[0]; ++b) {
    const int64_t start = data<int32_t>(a.start)[b];
    if (start >= 0 && start + Tq <= capacity) continue;
    stream.report(
        join("start ", start, " of sequence ", b, " with ", Tq, " queries is out of range of a cache of ", capacity, " positions"));
    return false;
  }
  return true;
}

}  // namespace

void kv_attention(Stream& stream, const KvAttentionArgs& args) {
  if (args.q.numel() == 0 || !starts_in_range(stream, args)) return;
  dispatch<float, bf16>(args.q.dtype, [&]<class T>() { launch<T>(stream, args); });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(kv_attention, KvAttentionArgs)
#endif
