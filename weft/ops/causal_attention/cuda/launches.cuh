// Launches of the attention kernels, plain or with options. Each is compiled in a file of its own.
#pragma once

#include "weft/ops/causal_attention/cuda/backward_bf16.cuh"
#include "weft/ops/causal_attention/cuda/backward_hopper.cuh"
#include "weft/ops/causal_attention/cuda/backward_persistent.cuh"
#include "weft/ops/causal_attention/cuda/forward_hopper.cuh"
#include "weft/ops/causal_attention/cuda/forward_persistent.cuh"
#include "weft/ops/causal_attention/cuda/passes.h"
#include "weft/ops/causal_attention/cuda/simt.cuh"

namespace weft::cuda {
namespace {

// Flags on the device, all zero.
class Flags {
 public:
  Flags(Stream& stream, int64_t count) : memory_(stream, count) {
    if (count)
      of(stream).enqueue("causal_attention", "zeroing",
                         [&](cudaStream_t s) { return cudaMemsetAsync(memory_.data(), 0, size_t(count) * sizeof(int), s); });
  }
  int* data() const { return memory_.data(); }

 private:
  Scratch<int> memory_;
};

// One block for each piece of work; one for each multiprocessor if there is most likely none.
inline unsigned simt_blocks(const Stream& stream, const int* only, int64_t slots, int64_t heads) {
  return only ? unsigned(multiprocessors(stream)) : unsigned(std::min<int64_t>(slots * heads, int64_t(1) << 30));
}

template <class T, bool kOptions>
void forward_simt(Stream& stream, const Launch& launch, const AttentionForward& a, const LaunchOptions& options, const int* only) {
  const int length = int(a.q.shape[1]), H = int(a.q.shape[2]), D = int(a.q.shape[3]);
  SimtForward<T> p{heads<T>(a.q),
                   heads<T>(a.k),
                   heads<T>(a.v),
                   heads<T>(a.o),
                   data<float>(a.lse),
                   data<int32_t>(a.start),
                   only,
                   length,
                   int(a.q.shape[0]),
                   H,
                   H / int(a.k.shape[2]),
                   D,
                   int(a.k.shape[1]),
                   a.scale,
                   0,
                   options.rule};
  with_head_dim(D, [&]<int kD>() {
    with_tiles(typename SimtChoice<kD>::List(), a.op, shared_memory(stream), [&]<class Tiles>() {
      p.slots = options.slots(length, Tiles::kB);
      launch(simt_blocks(stream, only, p.slots, H * a.q.shape[0]), 256, Tiles::kForwardBytes, causal_forward_simt<T, Tiles, kOptions>, p);
    });
  });
}

template <int kD, bool kOptions>
bool forward_hopper(Stream& stream, const Launch& launch, const AttentionForward& a, const LaunchOptions& options, const ForwardParams& p) {
  using Tiles = HopperTiles<kD>;
  constexpr auto kernel = causal_forward_hopper<kD, kOptions>;
  if (!p.aligned || Tiles::kBytes + kStaticShared > shared_memory(stream) || !compiled_for(kernel, Tiles::kThreads)) return false;
  launch(dim3(unsigned(options.slots(p.T, Tiles::kM)), unsigned(p.H), unsigned(a.q.shape[0])), Tiles::kThreads, Tiles::kBytes, kernel, p);
  return true;
}

// Plain attention over whole sequences; next: a counter that is zero. False if this GPU or the strides do not allow it.
template <int kD>
bool forward_persistent(Stream& stream, const Launch& launch, const AttentionForward& a, const ForwardParams& p, int* next) {
  using Tiles = PersistentTiles<kD>;
  CUtensorMap q, k, v;
  if (of(stream).planned()) return true;  // there is no workspace of its own
  if (p.start || !p.aligned || Tiles::kBytes + kStaticShared > shared_memory(stream) ||
      !compiled_for(causal_forward_persistent<kD>, Tiles::kThreads) || !map_heads(q, a.q, p.T, Tiles::kM) ||
      !map_heads(k, a.k, p.T, Tiles::kN) || !map_heads(v, a.v, p.T, Tiles::kN))
    return false;
  const int64_t B = a.q.shape[0], length = p.T, tiles = (length + Tiles::kM - 1) / Tiles::kM, all = tiles * B * p.H;
  const int64_t in_l2 = std::max<int64_t>(1, kPersistentL2 / (length * kD * 4)) * p.group;  // 4: bytes of an element of k and of v
  const QueryTiles queue{next, int(B), int(tiles), int(std::min(in_l2, B * p.H))};
  if (all > (int64_t(1) << 30)) return false;  // their numbers are int
  launch(unsigned(std::min<int64_t>(all, multiprocessors(stream))), Tiles::kThreads, Tiles::kBytes, causal_forward_persistent<kD>, q, k, v,
         queue, p);
  return true;
}

template <bool kOptions>
void forward_bf16(Stream& stream, const Launch& launch, const AttentionForward& a, const LaunchOptions& options) {
  using T16 = __nv_bfloat16;
  check(a.scale > 0, a.op, "needs a positive scale in bf16 on this device, got ", a.scale);
  const int length = int(a.q.shape[1]), H = int(a.q.shape[2]), Hkv = int(a.k.shape[2]), D = int(a.q.shape[3]);
  const bool aligned = heads_aligned<T16>(a.q) && heads_aligned<T16>(a.k) && heads_aligned<T16>(a.v) && heads_aligned<T16>(a.o);
  const int64_t not_finite_count = 1 + options.sequences(a.q.shape[0]) * Hkv;
  const Flags not_finite(stream, not_finite_count + 1);  // and the counter of forward_persistent
  const ForwardParams p{heads<T16>(a.q),
                        heads<T16>(a.k),
                        heads<T16>(a.v),
                        heads<T16>(a.o),
                        data<float>(a.lse),
                        data<int32_t>(a.start),
                        not_finite.data(),
                        length,
                        H,
                        H / Hkv,
                        D,
                        int(a.k.shape[1]),
                        a.scale,
                        aligned,
                        options.rule};
  with_head_dim(D, [&]<int kD>() {
    if constexpr (kD <= 128 && !kOptions)
      if (forward_persistent<kD>(stream, launch, a, p, not_finite.data() + not_finite_count)) return;
    if constexpr (kD <= 128)
      if (forward_hopper<kD, kOptions>(stream, launch, a, options, p)) return;
    with_tiles(typename ForwardChoice<kD>::List(), a.op, shared_memory(stream), [&]<class Tiles>() {
      launch(dim3(unsigned(options.slots(length, Tiles::kM)), unsigned(H), unsigned(a.q.shape[0])), Tiles::kWarps * 32, Tiles::kBytes,
             causal_forward<Tiles, kOptions>, p);
    });
  });
  forward_simt<T16, kOptions>(stream, launch, a, options, not_finite.data());
}

template <class T, bool kOptions>
void backward_simt(Stream& stream, const Launch& launch, const CausalAttentionBackwardArgs& a, const LaunchOptions& options,
                   const float* delta, const int* only) {
  const int length = int(a.q.shape[1]), H = int(a.q.shape[2]), Hkv = int(a.k.shape[2]), D = int(a.q.shape[3]);
  SimtBackward<T> p{heads<T>(a.q),
                    heads<T>(a.k),
                    heads<T>(a.v),
                    heads<T>(a.dout),
                    heads<T>(a.dq),
                    heads<T>(a.dk),
                    heads<T>(a.dv),
                    data<float>(a.lse),
                    delta,
                    only,
                    length,
                    int(a.q.shape[0]),
                    H,
                    H / Hkv,
                    D,
                    a.scale,
                    0,
                    options.rule};
  with_head_dim(D, [&]<int kD>() {
    with_tiles(typename SimtChoice<kD>::List(), a.kOp, shared_memory(stream), [&]<class Tiles>() {
      p.slots = options.slots(length, Tiles::kB);
      launch(simt_blocks(stream, only, p.slots, H * a.q.shape[0]), 256, Tiles::kBytes, causal_dq_simt<T, Tiles, kOptions>, p);
      launch(simt_blocks(stream, only, p.slots, Hkv * a.q.shape[0]), 256, Tiles::kBytes, causal_dkv_simt<T, Tiles, kOptions>, p);
    });
  });
}

// Calls run(params) to work on all tiles, then simt.cuh where it found values that are not finite.
template <class Tiles, bool kOptions, class Run>
void backward_tiles(Stream& stream, const Launch& launch, const CausalAttentionBackwardArgs& a, const LaunchOptions& options,
                    const float* delta, bool aligned, Run&& run) {
  using T16 = __nv_bfloat16;
  const int length = int(a.q.shape[1]), H = int(a.q.shape[2]), Hkv = int(a.k.shape[2]), D = int(a.q.shape[3]);
  const int key_tiles = options.slots(length, Tiles::kN), query_tiles = options.slots(length, Tiles::kM);
  const int sum_tiles = options.rule.documents ? length / Tiles::kM + length / Tiles::kN : query_tiles;
  const int64_t B = a.q.shape[0], tiles = B * H * query_tiles;
  const Scratch<float> sums(stream, B * H * sum_tiles * Tiles::kM * Tiles::kD);
  const Flags flags(stream, tiles + 2 + options.sequences(B) * Hkv);
  unsigned* turns = reinterpret_cast<unsigned*>(flags.data());
  int* not_finite = flags.data() + tiles + 1;
  const BackwardParams p{heads<T16>(a.q),
                         heads<T16>(a.k),
                         heads<T16>(a.v),
                         heads<T16>(a.dout),
                         heads<T16>(a.dq),
                         heads<T16>(a.dk),
                         heads<T16>(a.dv),
                         data<float>(a.lse),
                         delta,
                         sums.data(),
                         turns,
                         turns + tiles,
                         not_finite,
                         length,
                         H,
                         Hkv,
                         D,
                         key_tiles,
                         query_tiles,
                         a.scale,
                         aligned,
                         sum_tiles,
                         options.rule};
  run(p);
  backward_simt<T16, kOptions>(stream, launch, a, options, delta, not_finite);
}

// Plain attention by persistent blocks, with rows aligned. False if this GPU or the strides do not allow it.
template <int kD>
bool backward_persistent(Stream& stream, const Launch& launch, const CausalAttentionBackwardArgs& a, const float* delta) {
  using Tiles = PersistentBackwardTiles<kD>;
  constexpr int kBytes = PersistentBackwardMemory<Tiles>::kBytes;
  const int64_t B = a.q.shape[0], length = a.q.shape[1], group = a.q.shape[2] / a.k.shape[2];
  CUtensorMap q, k, v, dout;
  if (B * a.q.shape[2] * ((length + Tiles::kN - 1) / Tiles::kN) > (int64_t(1) << 30)) return false;  // numbers of tiles are int
  if (kBytes + kStaticShared > shared_memory(stream) || !compiled_for(causal_backward_persistent<Tiles>, Tiles::kThreads)) return false;
  if (!of(stream).planned() && !(map_heads(q, a.q, length, Tiles::kM) && map_heads(k, a.k, length, Tiles::kN) &&
                                 map_heads(v, a.v, length, Tiles::kN) && map_heads(dout, a.dout, length, Tiles::kM)))
    return false;
  backward_tiles<Tiles, false>(stream, launch, a, {}, delta, true, [&](const BackwardParams& p) {
    const int64_t row_count = B * p.H * p.query_tiles * Tiles::kM, carried_tiles = group > 1 ? B * p.Hkv * p.key_tiles : 0;
    const Scratch<float> rows(stream, 2 * row_count), carry(stream, carried_tiles * 2 * Tiles::kN * kD);
    const Flags carried(stream, carried_tiles);
    launch(unsigned((row_count + 255) / 256), 256, 0, tile_rows<Tiles::kM>, p.lse, delta, rows.data(), p.T, p.query_tiles, row_count);
    const int64_t blocks = multiprocessors(stream), key_heads = B * p.Hkv;
    const int64_t at_once = std::clamp<int64_t>(kPersistentBackwardL2 / (length * kD * 8), 1, std::min<int64_t>(16, key_heads));
    const KeyTiles all{p.ticket,    reinterpret_cast<unsigned*>(carried.data()), carry.data(), rows.data(), int(B), int(key_heads),
                       int(at_once)};
    launch(unsigned(blocks), Tiles::kThreads, kBytes, causal_backward_persistent<Tiles>, q, k, v, dout, all, p);
  });
  return true;
}

template <bool kOptions>
void backward_bf16(Stream& stream, const Launch& launch, const CausalAttentionBackwardArgs& a, const LaunchOptions& options,
                   const float* delta) {
  using T16 = __nv_bfloat16;
  const bool aligned = heads_aligned<T16>(a.q) && heads_aligned<T16>(a.k) && heads_aligned<T16>(a.v) && heads_aligned<T16>(a.dout);
  const bool all_aligned = aligned && heads_aligned<T16>(a.dq) && heads_aligned<T16>(a.dk) && heads_aligned<T16>(a.dv);
  const auto launch_tiles = [&](int threads, int bytes, void (*kernel)(BackwardParams)) {
    return [&launch, &a, threads, bytes, kernel](const BackwardParams& p) {
      launch(unsigned(a.q.shape[0] * p.Hkv * p.key_tiles), unsigned(threads), size_t(bytes), kernel, p);
    };
  };
  with_head_dim(a.q.shape[3], [&]<int kD>() {
    if constexpr (kD <= 128 && !kOptions)
      if (all_aligned && backward_persistent<kD>(stream, launch, a, delta)) return;
    if constexpr (kD <= 128 && kOptions) {
      using Tiles = HopperBackwardTiles<kD>;
      constexpr int kBytes = HopperBackwardMemory<Tiles>::kBytes;
      constexpr auto kernel = causal_backward_hopper<Tiles, kOptions>;
      if (all_aligned && kBytes + kStaticShared <= shared_memory(stream) && compiled_for(kernel, Tiles::kThreads))
        return backward_tiles<Tiles, kOptions>(stream, launch, a, options, delta, true, launch_tiles(Tiles::kThreads, kBytes, kernel));
    }
    with_tiles(typename BackwardChoice<kD>::List(), a.kOp, shared_memory(stream), [&]<class Tiles>() {
      backward_tiles<Tiles, kOptions>(stream, launch, a, options, delta, aligned,
                                      launch_tiles(Tiles::kWarps * 32, Tiles::kBytes, causal_backward<Tiles, kOptions>));
    });
  });
}

}  // namespace

template <bool kOptions>
void forward_pass(Stream& stream, const Launch& launch, const AttentionForward& a, const LaunchOptions& options) {
  a.q.dtype == DType::f32 ? forward_simt<float, kOptions>(stream, launch, a, options, nullptr)
                          : forward_bf16<kOptions>(stream, launch, a, options);
}
template <bool kOptions>
void backward_pass(Stream& stream, const Launch& launch, const CausalAttentionBackwardArgs& a, const LaunchOptions& options,
                   const float* delta) {
  a.q.dtype == DType::f32 ? backward_simt<float, kOptions>(stream, launch, a, options, delta, nullptr)
                          : backward_bf16<kOptions>(stream, launch, a, options, delta);
}

}  // namespace weft::cuda
