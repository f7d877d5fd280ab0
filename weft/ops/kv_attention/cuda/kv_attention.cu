#include "weft/ops/causal_attention/forward_pass.h"
#include "weft/ops/kv_attention/cuda/decode_bf16.cuh"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWidth = 8;         // elements of a lane: sixteen bytes of bf16
constexpr int kAtOnce = 2;        // keys of a lane in flight
constexpr int kMostSplits = 264;  // two blocks for each of the 132 multiprocessors of an H200

// Equation: as attend_bf16, on plain multiply-adds: for f32, and for rows that are not aligned.
// Layout:   as attend_bf16.
// Order:    kLanes lanes share a key, eight elements each; a lane group takes keys r, r + groups, ... in pairs, online; the
//           groups are then merged in order.
// Requires: D <= 8 kLanes, 128 threads. Unaligned rows are loaded element by element.
// Traffic:  every cached key and value once per kHeads heads of its group.
template <class T, int kLanes, int kHeads>
__global__ void __launch_bounds__(kThreads) attend(const DecodeParams<T> p) {
  constexpr int kGroups = kThreads / kLanes;
  const DecodeBlock block(p, kHeads);
  if (!block.valid) return;
  const int lane = int(threadIdx.x) % kLanes, member = int(threadIdx.x) / kLanes, column = lane * kWidth, left = p.D - column;
  const bool whole = p.aligned && left >= kWidth;
  const auto load = [&](const T* row) {
    return whole ? load_chunk<T, kWidth>(row + column) : load_chunk<T, kWidth>(row + column, left, 0);
  };

  float q[kHeads][kWidth], o[kHeads][kWidth] = {}, largest[kHeads], sum[kHeads] = {};
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    largest[h] = Max::kNone;
    const auto row = load(p.q.row(block.b, 0, block.head0 + min(h, block.heads - 1)));
#pragma unroll
    for (int i = 0; i < kWidth; ++i) q[h][i] = row[i] * p.to_log2;
  }
  for (int round = block.first; round < block.last; round += kGroups * kAtOnce) {  // all lanes of a warp iterate: shuffles need them
    const int j0 = round + member;
    Chunk<T, kWidth> k[kAtOnce], v[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) {
      const int j = min(j0 + u * kGroups, block.last - 1);
      k[u] = load(p.k.row(block.b, j, block.hkv));
      v[u] = load(p.v.row(block.b, j, block.hkv));
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float s[kAtOnce], most = largest[h];
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        s[u] = 0;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) s[u] = fmaf(q[h][i], k[u][i], s[u]);
#pragma unroll
        for (int distance = kLanes / 2; distance > 0; distance /= 2) s[u] += __shfl_xor_sync(0xffffffffu, s[u], distance);
        if (j0 + u * kGroups >= block.last) s[u] = Max::kNone;
        most = fmaxf(most, s[u]);
      }
      const float shift = most == Max::kNone ? 0.0f : most, shrink = exp2f(largest[h] - shift);
      largest[h] = most;
      sum[h] *= shrink;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) o[h][i] *= shrink;
#pragma unroll
      for (int u = 0; u < kAtOnce; ++u) {
        const float e = exp2f(s[u] - shift);
        sum[h] += e;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) o[h][i] = fmaf(e, v[u][i], o[h][i]);
      }
    }
  }

  // The lane groups are merged one head at a time, in order.
  __shared__ float outputs[kGroups][kLanes * kWidth], tops[kGroups], sums[kGroups];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (h >= block.heads) break;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kWidth; ++i) outputs[member][column + i] = o[h][i];
    if (lane == 0) tops[member] = largest[h], sums[member] = sum[h];
    __syncthreads();
    float top = Max::kNone, total = 0;
    for (int g = 0; g < kGroups; ++g) top = fmaxf(top, tops[g]);
    for (int g = 0; g < kGroups; ++g) total = fmaf(sums[g], exp2f(tops[g] - top), total);
    for (int d = int(threadIdx.x); d < p.D; d += kThreads) {
      float x = 0;
      for (int g = 0; g < kGroups; ++g) x = fmaf(outputs[g][d], exp2f(tops[g] - top), x);
      block.write(p, h, d, x);
    }
    if (threadIdx.x == 0) block.write(p, h, top, total);
  }
}

constexpr int kRuns = 8, kJoinThreads = 512;

// Equation: o = sum over splits of 2^(m_s - m) o_s / sum over splits of 2^(m_s - m) l_s, m = max m_s.
// Layout:   partial results of the splits; o [B, 1, H, D].
// Order:    a block per (head, sequence); splits s, s + 8, ... in order by each of eight runs of 64 threads, then the runs.
// Requires: at most kMostSplits splits, D <= 256.
// Traffic:  one read of the partial results, one write of o.
template <class T>
__global__ void __launch_bounds__(kJoinThreads) join_splits(const DecodeParams<T> p, Heads<T> o) {
  __shared__ float weight[kMostSplits], runs[kRuns][256];
  const int h = int(blockIdx.x), b = int(blockIdx.y), before = p.start[b], thread = int(threadIdx.x);
  if (before < 0 || before >= p.capacity) return;
  const int length = before + 1, chunk = split_length(length, p.splits), used = (length + chunk - 1) / chunk;
  const int64_t at = (int64_t(b) * p.H + h) * p.splits;
  Group<kJoinThreads> group;
  const float mine = thread < used ? p.partial.largest[at + thread] : Max::kNone;  // kJoinThreads >= kMostSplits
  const float top = group.reduce(mine, [](float x, float y) { return fmaxf(x, y); });
  const float shrunk = thread < used ? exp2f(mine - top) : 0.0f;
  if (thread < used) weight[thread] = shrunk;
  const float total = group.sum(thread < used ? shrunk * p.partial.sum[at + thread] : 0.0f);  // its barrier also makes all weights visible
  const int run = thread / (kJoinThreads / kRuns), lane = thread % (kJoinThreads / kRuns);
  for (int d = lane; d < p.D; d += kJoinThreads / kRuns) {
    float x = 0;
#pragma unroll 4
    for (int s = run; s < used; s += kRuns) x = fmaf(p.partial.o[(at + s) * p.D + d], weight[s], x);
    runs[run][d] = x;
  }
  __syncthreads();
  for (int d = thread; d < p.D; d += kJoinThreads) {
    float x = runs[0][d];
#pragma unroll
    for (int r = 1; r < kRuns; ++r) x += runs[r][d];
    o.row(b, 0, h)[d] = from_float<T>(x / total);
  }
}

template <class T, int kLanes>
void attend_simt(const Launch& launch, const DecodeParams<T>& p, unsigned B) {
  const auto with_heads = [&]<int kHeads>() {
    launch(dim3(unsigned(p.splits), unsigned(p.Hkv * ((p.group + kHeads - 1) / kHeads)), B), kThreads, 0, attend<T, kLanes, kHeads>, p);
  };
  p.group == 1 ? with_heads.template operator()<1>() : with_heads.template operator()<4>();
}

template <class T>
void attend_splits(const Stream& stream, const Launch& launch, const DecodeParams<T>& p, unsigned B) {
  if constexpr (sizeof(T) == 2) {
    const auto on_tensor_cores = [&]<int kD>() {
      with_tiles(typename DecodeChoice<kD>::List(), launch.op(), shared_memory(stream), [&]<class Tiles>() {
        launch(dim3(unsigned(p.splits), unsigned(p.Hkv * ((p.group + kMostHeads - 1) / kMostHeads)), B), kDecodeWarps * 32, Tiles::kBytes,
               attend_bf16<Tiles>, p);
      });
    };
    if (p.aligned && p.to_log2 > 0)
      return p.D <= 64    ? on_tensor_cores.template operator()<64>()
             : p.D <= 128 ? on_tensor_cores.template operator()<128>()
                          : on_tensor_cores.template operator()<256>();
  }
  p.D <= 64 ? attend_simt<T, 8>(launch, p, B) : p.D <= 128 ? attend_simt<T, 16>(launch, p, B) : attend_simt<T, 32>(launch, p, B);
}

// One query per sequence. The number of splits fills the GPU at batch 1 and depends on shapes alone.
template <class T>
void decode(const Launch& launch, Stream& stream, const KvAttentionArgs& a) {
  const int H = int(a.q.shape[2]), Hkv = int(a.k_cache.shape[2]), D = int(a.q.shape[3]), capacity = int(a.k_cache.shape[1]);
  const int64_t B = a.q.shape[0], wanted = kMostSplits / std::max<int64_t>(1, B * Hkv);
  const int splits = int(std::clamp<int64_t>(wanted, 1, std::max(1, capacity / 64)));
  const Scratch<float> space(stream, B * H * splits * (D + 2));
  const DecodePartial partial{space.data(), space.data() + B * H * splits * D, space.data() + B * H * splits * (D + 1)};
  const bool aligned = heads_aligned<T>(a.q) && heads_aligned<T>(a.k_cache) && heads_aligned<T>(a.v_cache);
  const DecodeParams<T> p{heads<T>(a.q),
                          heads<T>(a.k_cache),
                          heads<T>(a.v_cache),
                          data<int32_t>(a.start),
                          partial,
                          capacity,
                          H,
                          Hkv,
                          H / Hkv,
                          D,
                          splits,
                          a.scale * kLog2e,
                          aligned,
                          launch.fault(),
                          launch.op()};
  attend_splits<T>(stream, launch, p, unsigned(B));
  launch(dim3(unsigned(H), unsigned(B)), kJoinThreads, 0, join_splits<T>, p, heads<T>(a.o));
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
  check(B <= 65535 && a.q.shape[2] <= 65535 && a.k_cache.shape[1] < (int64_t(1) << 30), a.kOp, "shape ", a.k_cache.shape,
        " is more than this device takes in one launch");
  if (Tq == 1) return dispatch_device<float, bf16>(a.q.dtype, [&]<class T>() { decode<T>(launch, stream, a); });
  launch(1, 256, 0, check_starts, data<int32_t>(a.start), int(B), int(a.k_cache.shape[1] - Tq), launch.fault(), launch.op());
  const AttentionForward forward{
      .op = a.kOp, .q = a.q, .k = a.k_cache, .v = a.v_cache, .start = a.start, .o = a.o, .lse = {}, .scale = a.scale};
  attention_forward(stream, forward);
}

}  // namespace weft::cuda
