#include "weft/ops/causal_attention/cuda/backward_bf16.cuh"
#include "weft/ops/causal_attention/cuda/backward_hopper.cuh"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/causal_attention/forward_pass.h"
#include "weft/ops/causal_attention/cuda/forward_hopper.cuh"
#include "weft/ops/causal_attention/cuda/simt.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

void check_extents(const char* op, const View& q) {
  check(q.shape[0] <= 65535 && q.shape[2] <= 65535 && q.shape[1] < (int64_t(1) << 30), op, "shape ", q.shape,
        " is more than this device takes in one launch");
}

// Equation: delta_i = o_i . do_i.
// Layout:   o, dout [B, T, H, D] with any strides over B, T, H; delta [B, H, T].
// Order:    a warp per row: lanes over D, then a butterfly.
// Requires: nothing more.
// Traffic:  one read of o and dout, one write of delta.
template <class T>
__global__ void __launch_bounds__(128)
    row_products(Heads<const T> o, Heads<const T> dout, float* delta, int64_t rows, int length, int H, int D) {
  const int64_t row = Group<32>::index();
  if (row >= rows) return;
  const int64_t b = row / (int64_t(H) * length), h = row / length % H, t = row % length;
  const T *x = o.row(b, t, h), *y = dout.row(b, t, h);
  float sum = 0;
  for (int d = Group<32>::rank(); d < D; d += 32) sum = fmaf(to_float(x[d]), to_float(y[d]), sum);
  sum = warp_reduce(sum, Sum());
  if (Group<32>::rank() == 0) delta[row] = sum;
}

// Equation, layout: as row_products.
// Order:    kLanes lanes a row, eight elements each in order, then a butterfly; rows in memory order.
// Requires: aligned rows, D <= 8 kLanes.
// Traffic:  one read of o and dout, sixteen bytes at a time, one write of delta.
template <int kLanes>
__global__ void __launch_bounds__(256) row_products_aligned(Heads<const __nv_bfloat16> o, Heads<const __nv_bfloat16> dout, float* delta,
                                                            int64_t rows, int length, int H, int D) {
  const int64_t row = (int64_t(blockIdx.x) * 256 + threadIdx.x) / kLanes, bt = row / H, b = bt / length;
  const int column = int(threadIdx.x) % kLanes * 8, h = int(row - bt * H), t = int(bt - b * length);
  float sum = 0;
  if (row < rows && column < D) {
    const auto x = load_chunk<__nv_bfloat16, 8>(o.row(b, t, h) + column), y = load_chunk<__nv_bfloat16, 8>(dout.row(b, t, h) + column);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum = fmaf(x[i], y[i], sum);
  }
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (row < rows && column == 0) delta[(b * H + h) * length + t] = sum;
}

template <class T>
void launch_row_products(const Launch& launch, const CausalAttentionBackwardArgs& a, float* delta) {
  const int64_t rows = a.q.shape[0] * a.q.shape[1] * a.q.shape[2];
  if constexpr (sizeof(T) == 2)
    if (heads_aligned<T>(a.o) && heads_aligned<T>(a.dout)) {
      const auto aligned = [&]<int kLanes>() {
        launch(unsigned((rows * kLanes + 255) / 256), 256, 0, row_products_aligned<kLanes>, heads<T>(a.o), heads<T>(a.dout), delta, rows,
               int(a.q.shape[1]), int(a.q.shape[2]), int(a.q.shape[3]));
      };
      return a.q.shape[3] <= 64    ? aligned.template operator()<8>()
             : a.q.shape[3] <= 128 ? aligned.template operator()<16>()
                                   : aligned.template operator()<32>();
    }
  launch(unsigned((rows + 3) / 4), 128, 0, row_products<T>, heads<T>(a.o), heads<T>(a.dout), delta, rows, int(a.q.shape[1]),
         int(a.q.shape[2]), int(a.q.shape[3]));
}

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
unsigned simt_blocks(const Stream& stream, const int* only, int64_t length, int tile, int64_t heads) {
  return only ? unsigned(multiprocessors(stream)) : unsigned(std::min<int64_t>((length + tile - 1) / tile * heads, int64_t(1) << 30));
}

template <class T>
void forward_simt(Stream& stream, const Launch& launch, const AttentionForward& a, const int* only) {
  const int length = int(a.q.shape[1]), H = int(a.q.shape[2]), D = int(a.q.shape[3]);
  const SimtForward<T> p{heads<T>(a.q),
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
                         a.scale};
  with_head_dim(D, [&]<int kD>() {
    with_tiles(typename SimtChoice<kD>::List(), a.op, shared_memory(stream), [&]<class Tiles>() {
      launch(simt_blocks(stream, only, length, Tiles::kB, H * a.q.shape[0]), 256, Tiles::kForwardBytes, causal_forward_simt<T, Tiles>, p);
    });
  });
}

// Whether a Hopper kernel was compiled for sm_90a and this GPU runs it.
template <class Params>
bool compiled_for(void (*kernel)(Params), int threads) {
  cudaFuncAttributes compiled{};
  return cudaFuncGetAttributes(&compiled, kernel) == cudaSuccess && compiled.maxThreadsPerBlock >= threads;
}

template <int kD>
bool forward_hopper(Stream& stream, const Launch& launch, const AttentionForward& a, const ForwardParams& p) {
  using Tiles = HopperTiles<kD>;
  if (!p.aligned || Tiles::kBytes + kStaticShared > shared_memory(stream) || !compiled_for(causal_forward_hopper<kD>, Tiles::kThreads))
    return false;
  launch(dim3(unsigned((p.T + Tiles::kM - 1) / Tiles::kM), unsigned(p.H), unsigned(a.q.shape[0])), Tiles::kThreads, Tiles::kBytes,
         causal_forward_hopper<kD>, p);
  return true;
}

void forward_bf16(Stream& stream, const Launch& launch, const AttentionForward& a) {
  using T16 = __nv_bfloat16;
  check(a.scale > 0, a.op, "needs a positive scale in bf16 on this device, got ", a.scale);
  const int length = int(a.q.shape[1]), H = int(a.q.shape[2]), Hkv = int(a.k.shape[2]), D = int(a.q.shape[3]);
  const bool aligned = heads_aligned<T16>(a.q) && heads_aligned<T16>(a.k) && heads_aligned<T16>(a.v) && heads_aligned<T16>(a.o);
  const Flags not_finite(stream, 1 + a.q.shape[0] * Hkv);
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
                        aligned};
  with_head_dim(D, [&]<int kD>() {
    if constexpr (kD <= 128)
      if (forward_hopper<kD>(stream, launch, a, p)) return;
    with_tiles(typename ForwardChoice<kD>::List(), a.op, shared_memory(stream), [&]<class Tiles>() {
      launch(dim3(unsigned((length + Tiles::kM - 1) / Tiles::kM), unsigned(H), unsigned(a.q.shape[0])), Tiles::kWarps * 32, Tiles::kBytes,
             causal_forward<Tiles>, p);
    });
  });
  forward_simt<T16>(stream, launch, a, not_finite.data());
}

template <class T>
void backward_simt(Stream& stream, const Launch& launch, const CausalAttentionBackwardArgs& a, const float* delta, const int* only) {
  const int length = int(a.q.shape[1]), H = int(a.q.shape[2]), Hkv = int(a.k.shape[2]), D = int(a.q.shape[3]);
  const SimtBackward<T> p{heads<T>(a.q),
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
                          a.scale};
  with_head_dim(D, [&]<int kD>() {
    with_tiles(typename SimtChoice<kD>::List(), a.kOp, shared_memory(stream), [&]<class Tiles>() {
      launch(simt_blocks(stream, only, length, Tiles::kB, H * a.q.shape[0]), 256, Tiles::kBytes, causal_dq_simt<T, Tiles>, p);
      launch(simt_blocks(stream, only, length, Tiles::kB, Hkv * a.q.shape[0]), 256, Tiles::kBytes, causal_dkv_simt<T, Tiles>, p);
    });
  });
}

// Runs `kernel` over all tiles, then simt.cuh where it found values that are not finite.
template <class Tiles>
void backward_tiles(Stream& stream, const Launch& launch, const CausalAttentionBackwardArgs& a, const float* delta, bool aligned,
                    int threads, int bytes, void (*kernel)(BackwardParams)) {
  using T16 = __nv_bfloat16;
  const int length = int(a.q.shape[1]), H = int(a.q.shape[2]), Hkv = int(a.k.shape[2]), D = int(a.q.shape[3]);
  const int key_tiles = (length + Tiles::kN - 1) / Tiles::kN, query_tiles = (length + Tiles::kM - 1) / Tiles::kM;
  const int64_t B = a.q.shape[0], blocks = B * Hkv * key_tiles, tiles = B * H * query_tiles;
  const Scratch<float> sums(stream, tiles * Tiles::kM * Tiles::kD);
  const Flags flags(stream, tiles + 2 + B * Hkv);
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
                         aligned};
  launch(unsigned(blocks), unsigned(threads), size_t(bytes), kernel, p);
  backward_simt<T16>(stream, launch, a, delta, not_finite);
}

void backward_bf16(Stream& stream, const Launch& launch, const CausalAttentionBackwardArgs& a, const float* delta) {
  using T16 = __nv_bfloat16;
  const bool aligned = heads_aligned<T16>(a.q) && heads_aligned<T16>(a.k) && heads_aligned<T16>(a.v) && heads_aligned<T16>(a.dout);
  const bool all_aligned = aligned && heads_aligned<T16>(a.dq) && heads_aligned<T16>(a.dk) && heads_aligned<T16>(a.dv);
  with_head_dim(a.q.shape[3], [&]<int kD>() {
    if constexpr (kD <= 128) {
      using Tiles = HopperBackwardTiles<kD>;
      constexpr int kBytes = HopperBackwardMemory<Tiles>::kBytes;
      if (all_aligned && kBytes + kStaticShared <= shared_memory(stream) && compiled_for(causal_backward_hopper<Tiles>, Tiles::kThreads))
        return backward_tiles<Tiles>(stream, launch, a, delta, true, Tiles::kThreads, kBytes, causal_backward_hopper<Tiles>);
    }
    with_tiles(typename BackwardChoice<kD>::List(), a.kOp, shared_memory(stream), [&]<class Tiles>() {
      backward_tiles<Tiles>(stream, launch, a, delta, aligned, Tiles::kWarps * 32, Tiles::kBytes, causal_backward<Tiles>);
    });
  });
}

}  // namespace

void attention_forward(Stream& stream, const AttentionForward& a) {
  const Launch launch(stream, a.op, {&a.q, &a.k});
  check_extents(a.op, a.q);
  if (a.q.numel() == 0) return;
  a.q.dtype == DType::f32 ? forward_simt<float>(stream, launch, a, nullptr) : forward_bf16(stream, launch, a);
}

void causal_attention(Stream& stream, const CausalAttentionArgs& a) {
  require_plain_attention("CUDA", a);
  const AttentionForward forward{.op = a.kOp, .q = a.q, .k = a.k, .v = a.v, .start = {}, .o = a.o, .lse = a.lse, .scale = a.scale};
  attention_forward(stream, forward);
}
void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& a) {
  require_plain_attention("CUDA", a);
  const Launch launch(stream, a.kOp, {&a.q, &a.k});
  check_extents(a.kOp, a.q);
  if (a.q.numel() == 0) return;
  const Scratch<float> delta(stream, a.q.shape[0] * a.q.shape[1] * a.q.shape[2]);
  if (a.q.dtype == DType::f32) {
    launch_row_products<float>(launch, a, delta.data());
    return backward_simt<float>(stream, launch, a, delta.data(), nullptr);
  }
  launch_row_products<__nv_bfloat16>(launch, a, delta.data());
  backward_bf16(stream, launch, a, delta.data());
}

}  // namespace weft::cuda
