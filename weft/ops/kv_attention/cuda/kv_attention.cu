#include "weft/ops/causal_attention/forward_pass.h"
#include "weft/ops/kv_attention/cuda/decode_f32.cuh"
#include "weft/ops/kv_attention/cuda/score_keys.cuh"
#include "weft/ops/kv_attention/cuda/weigh_values.cuh"
#include "weft/ops/kv_attention/kv_attention.h"

namespace weft::cuda {
namespace {

unsigned ceil_div(int64_t x, int64_t y) { return unsigned((x + y - 1) / y); }

// Parameters and grids of the kernels for queries [first, first + count), counted over all sequences.
template <class T>
class Decode {
 public:
  Decode(Stream& stream, const Launch& launch, const KvAttentionArgs& a, int tile, int64_t first, int64_t count)
      : stream_(stream),
        launch_(launch),
        B_(count),
        Hkv_(a.k_cache.shape[2]),
        D_(a.q.shape[3]),
        pitch_((kv_capacity(a.k_cache, a.pages) + tile - 1) / tile * tile),
        rows_(count * a.q.shape[2]),
        scores_(stream, rows_ * pitch_ + (sizeof(T) == 2 ? rows_ * pitch_ / kScoreKeys : 0)),
        params{heads<T>(a.q),
               cached_heads<T>(a.k_cache, a.pages, launch),
               cached_heads<T>(a.v_cache, a.pages, launch),
               heads<T>(a.o),
               data<int32_t>(a.start),
               scores_.data(),
               scores_.data() + rows_ * pitch_,
               int(kv_capacity(a.k_cache, a.pages)),
               int(pitch_),
               int(a.q.shape[2]),
               int(a.q.shape[2] / Hkv_),
               int(D_),
               int(a.q.shape[1]),
               int(first),
               int(a.window > 0 ? std::min(a.window, kv_capacity(a.k_cache, a.pages)) : kv_capacity(a.k_cache, a.pages)),
               a.soft_cap,
               a.soft_cap > 0 ? a.scale / a.soft_cap : 0,
               a.soft_cap > 0 ? 1 : a.scale,
               heads_aligned<T>(a.q) && heads_aligned<T>(a.k_cache) && heads_aligned<T>(a.v_cache),
               launch.fault(),
               launch.op()} {}

  // Blocks for keys, `keys` each; they stride over the cache, so that one that is mostly empty costs few blocks.
  void score(int keys, int threads, int bytes, void (*kernel)(DecodeParams<T>)) const {
    const int64_t most = int64_t(multiprocessors(stream_)) * kScoreBlocks / (Hkv_ * parts() * B_);
    const unsigned blocks = unsigned(std::min<int64_t>(ceil_div(pitch_, keys), std::max<int64_t>(1, most)));
    run(dim3(blocks, unsigned(Hkv_ * parts()), unsigned(B_)), threads, bytes, kernel);
  }
  void weigh(int columns, int threads, int bytes, void (*kernel)(DecodeParams<T>)) const {
    run(dim3(ceil_div(D_, columns), unsigned(Hkv_ * parts()), unsigned(B_)), threads, bytes, kernel);
  }
  // Whether blocks of so many columns keep three of four multiprocessors busy.
  bool fills(int columns) const { return 4 * ceil_div(D_, columns) * Hkv_ * parts() * B_ >= 3 * int64_t(multiprocessors(stream_)); }

 private:
  static constexpr int kScoreBlocks = 16;  // to a multiprocessor: 128 KiB of keys in flight at D = 64
  int64_t parts() const { return ceil_div(params.group, kDecodeHeads); }
  // The bf16 kernels overlap with the previous kernel (overlap.cuh); the f32 kernels start after it.
  void run(dim3 grid, int threads, int bytes, void (*kernel)(DecodeParams<T>)) const {
    if constexpr (sizeof(T) == 2)
      launch_overlapping(stream_, launch_.op(), grid, unsigned(threads), size_t(bytes), kernel, params);
    else
      launch_(grid, unsigned(threads), size_t(bytes), kernel, params);
  }

  Stream& stream_;
  const Launch& launch_;
  const int64_t B_, Hkv_, D_, pitch_, rows_;
  const Scratch<float> scores_;

 public:
  const DecodeParams<T> params;
};

void decode_f32(Stream& stream, const Launch& launch, const KvAttentionArgs& a, int64_t first, int64_t count) {
  const Decode<float> decode(stream, launch, a, 1, first, count);
  decode.score(kSimtScoreKeys, kDecodeThreads, score_bytes(int(a.q.shape[3])), score_keys_simt);
  with_head_dim(a.q.shape[3], [&]<int kD>() {
    with_tiles(typename SimtChoice<kD>::List(), launch.op(), shared_memory(stream), [&]<class Tiles>() {
      decode.weigh(SimtWeighTiles<Tiles::kB>::kColumns, kDecodeThreads, SimtWeighTiles<Tiles::kB>::kBytes, weigh_values_simt<Tiles::kB>);
    });
  });
}

void decode_bf16(Stream& stream, const Launch& launch, const KvAttentionArgs& a, int64_t first, int64_t count) {
  check(a.scale > 0, launch.op(), "needs a positive scale in bf16 on this device, got ", a.scale);
  with_head_dim(a.q.shape[3], [&]<int kD>() {
    const Decode<__nv_bfloat16> decode(stream, launch, a, kForwardKeys<kD>, first, count);
    const auto weigh = [&]<class Tiles>() { decode.weigh(Tiles::kColumns, kDecodeWarps * 32, Tiles::kBytes, weigh_values<Tiles, 0>); };
    if constexpr (kD <= 128) {
      using Tiles = WeighTiles<kForwardKeys<kD>, kForwardQueries<kD>, 16>;
      constexpr int kBytes = Tiles::kBytes + ScoresHere<Tiles::kShort>::kBytes;
      if (!decode.fills(64) && decode.params.aligned && decode.params.pitch <= Tiles::kShort && kBytes <= shared_memory(stream))
        return decode.weigh(Tiles::kColumns, kDecodeWarps * 32, kBytes, weigh_values<Tiles, kD>);
    }
    decode.score(kScoreKeys, 32, kScoreBytes<kD>, score_keys<kD>);
    if (decode.fills(64))
      with_tiles(typename WeighChoice<kD>::Wide(), launch.op(), shared_memory(stream), weigh);
    else
      with_tiles(typename WeighChoice<kD>::Narrow(), launch.op(), shared_memory(stream), weigh);
  });
}

// Decodes every query as a sequence of its own. The queries of a prompt are split so that their scores take at most 64 MiB and a grid's z
// axis suffices.
void decode(Stream& stream, const Launch& launch, const KvAttentionArgs& a) {
  const int64_t all = a.q.shape[0] * a.q.shape[1], each = a.q.shape[2] * (kv_capacity(a.k_cache, a.pages) + 128);
  const int64_t at_once = a.q.shape[1] == 1 ? all : std::clamp<int64_t>((int64_t(1) << 24) / each, 1, std::min<int64_t>(all, 65535));
  for (int64_t first = 0; first < all; first += at_once) {
    const int64_t count = std::min(at_once, all - first);
    a.q.dtype == DType::f32 ? decode_f32(stream, launch, a, first, count) : decode_bf16(stream, launch, a, first, count);
  }
}

// Parameters of the kernel that copies paged keys and values to contiguous rows.
template <class Piece>
struct GatherParams {
  CachedHeads<const Piece> k, v;
  Piece *to_k, *to_v;  // [B, capacity, heads, pieces]
  const int32_t* start;
  int capacity, tokens, heads, pieces;
};

// Equation: to_k[b, t] = k[b, t] for t < start[b] + tokens, and so for v.
// Layout:   k, v: paged caches; to_k, to_v contiguous.
// Order:    no sums; a thread copies one piece (sixteen bytes, or an element) of k and of v; a row of blocks per sequence.
// Requires: nothing; another kernel reports starts out of range.
// Traffic:  one read and one write of the positions in use.
template <class Piece>
__global__ void gather(const GatherParams<Piece> p) {
  const int64_t b = blockIdx.y, row = int64_t(p.heads) * p.pieces;
  const int64_t count = int64_t(max(0, min(p.capacity, p.start[b] + p.tokens))) * row;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += int64_t(gridDim.x) * blockDim.x) {
    const int t = int(i / row), at = int(i - t * row), h = at / p.pieces, d = at - h * p.pieces;
    const int64_t to = b * p.capacity * row + i;
    p.to_k[to] = p.k.row(b, t, h)[d];
    p.to_v[to] = p.v.row(b, t, h)[d];
  }
}

// The forward pass reads contiguous caches, so a paged cache is copied first.
template <class Piece>
void gather_as(Stream& stream, const Launch& launch, const KvAttentionArgs& a, const View& k, const View& v) {
  const auto source = [&](const View& cache) {
    CachedHeads<const Piece> pieces = cached_heads<Piece>(cache, a.pages, launch);
    const int64_t elements = int64_t(sizeof(Piece)) / size_of(cache.dtype);
    for (int64_t* stride : {&pieces.stored.batch, &pieces.stored.time, &pieces.stored.head}) *stride /= elements;
    return pieces;
  };
  const int64_t B = k.shape[0], capacity = k.shape[1], heads = k.shape[2], D = k.shape[3];
  const int64_t pieces = D * size_of(k.dtype) / int64_t(sizeof(Piece));
  const GatherParams<Piece> p{source(a.k_cache),
                              source(a.v_cache),
                              const_cast<Piece*>(data<Piece>(k)),
                              const_cast<Piece*>(data<Piece>(v)),
                              data<int32_t>(a.start),
                              int(capacity),
                              int(a.q.shape[1]),
                              int(heads),
                              int(pieces)};
  launch(dim3(blocks_for(stream, capacity * heads * pieces, 256), unsigned(B)), 256, 0, gather<Piece>, p);
}

void gather_pages(Stream& stream, const Launch& launch, const KvAttentionArgs& a, const Buffer& memory, AttentionForward& forward) {
  const int64_t B = a.q.shape[0], capacity = kv_capacity(a.k_cache, a.pages), H = a.k_cache.shape[2], D = a.k_cache.shape[3];
  forward.k = {&memory, 0, a.q.dtype, {B, capacity, H, D}, {capacity * H * D, H * D, D, 1}};
  forward.v = forward.k;
  forward.v.offset = B * capacity * H * D * size_of(a.q.dtype);
  const auto vectors = [](const View& cache) {
    return cache.dtype == DType::f32 ? heads_aligned<float>(cache) : heads_aligned<__nv_bfloat16>(cache);
  };
  if (vectors(a.k_cache) && vectors(a.v_cache) && forward.v.offset % 16 == 0)
    return gather_as<uint4>(stream, launch, a, forward.k, forward.v);
  if (a.q.dtype == DType::f32) return gather_as<uint32_t>(stream, launch, a, forward.k, forward.v);
  gather_as<uint16_t>(stream, launch, a, forward.k, forward.v);
}

// Equation: a fault where start[b] is not in [0, most].
// Layout:   start [B].
// Order:    one block; no sums.
// Requires: nothing more; the kernels that follow skip such a sequence.
// Traffic:  one read of start.
__global__ void check_starts(const int32_t* start, int B, int most, Fault* fault, const char* op) {
  for (int b = int(threadIdx.x); b < B; b += int(blockDim.x))
    if (start[b] < 0 || start[b] > most) report(fault, Fault::start_out_of_range, op, start[b], b, most);
}

}  // namespace

void kv_attention(Stream& stream, const KvAttentionArgs& a) {
  const Launch launch(stream, a.kOp, {&a.q, &a.k_cache});
  const int64_t B = a.q.shape[0], Tq = a.q.shape[1];
  if (a.q.numel() == 0) return;
  const int64_t capacity = kv_capacity(a.k_cache, a.pages);
  check(B <= 65535 && a.q.shape[2] <= 65535 && capacity < (int64_t(1) << 30), a.kOp, "shape ", a.k_cache.shape,
        " is more than this device takes in one launch");
  // With a window, a row's first tile of keys depends on its position in the sequence, but the forward pass counts from the chunk's start.
  if (Tq == 1 || a.window > 0 || a.soft_cap > 0) return decode(stream, launch, a);
  launch(1, 256, 0, check_starts, data<int32_t>(a.start), int(B), int(capacity - Tq), launch.fault(), launch.op());
  AttentionForward forward{.op = a.kOp, .q = a.q, .k = a.k_cache, .v = a.v_cache, .start = a.start, .o = a.o, .lse = {}, .scale = a.scale};
  if (!a.pages) return attention_forward(stream, forward);
  const auto memory =
      stream.device().allocate(2 * B * capacity * a.k_cache.shape[2] * a.k_cache.shape[3] * size_of(a.q.dtype), MemoryUse::workspace);
  gather_pages(stream, launch, a, *memory, forward);
  attention_forward(stream, forward);
}

}  // namespace weft::cuda
