#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/causal_attention/cuda/launches.cuh"
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

// Equation: count = the number of documents without the empty ones at the end, or 0 and a fault if their cumulative lengths do not
//           ascend from 0 to T.
// Layout:   documents [n + 1].
// Order:    one block; no sums.
// Requires: nothing more; the kernels that follow do nothing if count is 0.
// Traffic:  one read of documents.
__global__ void __launch_bounds__(1024) check_documents(const int32_t* documents, int n, int T, int* count, Fault* fault, const char* op) {
  __shared__ int used;  // written by one thread if the lengths ascend to T > 0
  bool bad = false;
  for (int i = int(threadIdx.x); i <= n; i += int(blockDim.x)) {
    const int end = documents[i], before = i == 0 ? 0 : documents[i - 1];
    if (before <= end && end <= (i == 0 ? 0 : T) && (i < n || end == T)) {
      if (before < T && end == T) used = i;
      continue;
    }
    bad = true;
    report(fault, Fault::bad_documents, op, end, i, T);
  }
  bad = __syncthreads_or(bad);
  if (threadIdx.x == 0) *count = bad || T == 0 ? 0 : used;
}

// Calls pass.operator()<kOptions>(options) with the options of either Args.
template <class Args, class Pass>
void with_options(Stream& stream, const Launch& launch, const Args& a, Pass&& pass) {
  const int64_t T = a.q.shape[1];
  const bool cut = a.window > 0 && a.window < T;
  if (!a.documents && !cut && !(a.soft_cap > 0)) return a.q.numel() == 0 ? void() : pass.template operator()<false>(LaunchOptions());
  LaunchOptions options;
  options.rule.window = int(cut ? a.window : T);
  options.rule.soft_cap = a.soft_cap;
  options.rule.cap_scale = a.soft_cap > 0 ? a.scale / a.soft_cap : 0;
  const Scratch<int> count(stream, 1);
  if (a.documents) {
    options.documents = a.documents.numel() - 1;
    check(options.documents < (int64_t(1) << 30), a.kOp, options.documents, " documents are more than this device takes in one launch");
    options.rule.documents = data<int32_t>(a.documents);
    options.rule.count = count.data();
    launch(1, 1024, 0, check_documents, options.rule.documents, int(options.documents), int(T), count.data(), launch.fault(), launch.op());
  }
  if (a.q.numel() > 0) pass.template operator()<true>(options);
}

}  // namespace

void attention_forward(Stream& stream, const AttentionForward& a) {
  const Launch launch(stream, a.op, {&a.q, &a.k});
  check_extents(a.op, a.q);
  if (a.q.numel() > 0) forward_pass<false>(stream, launch, a, {});
}

void causal_attention(Stream& stream, const CausalAttentionArgs& a) {
  const AttentionForward forward{.op = a.kOp, .q = a.q, .k = a.k, .v = a.v, .start = {}, .o = a.o, .lse = a.lse, .scale = a.scale};
  const Launch launch(stream, a.kOp, {&a.q, &a.k});
  check_extents(a.kOp, a.q);
  with_options(stream, launch, a,
               [&]<bool kOptions>(const LaunchOptions& options) { forward_pass<kOptions>(stream, launch, forward, options); });
}
void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& a) {
  const Launch launch(stream, a.kOp, {&a.q, &a.k});
  check_extents(a.kOp, a.q);
  with_options(stream, launch, a, [&]<bool kOptions>(const LaunchOptions& options) {
    const Scratch<float> delta(stream, a.q.shape[0] * a.q.shape[1] * a.q.shape[2]);
    a.q.dtype == DType::f32 ? launch_row_products<float>(launch, a, delta.data())
                            : launch_row_products<__nv_bfloat16>(launch, a, delta.data());
    backward_pass<kOptions>(stream, launch, a, options, delta.data());
  });
}

}  // namespace weft::cuda
