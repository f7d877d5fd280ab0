#include "weft/tile/cuda/blas.h"
#include "weft/ops/matmul/cuda/epilogue.cuh"
#include "weft/ops/matmul/cuda/few_rows.h"
#include "weft/ops/matmul/cuda/int8.h"
#include "weft/ops/matmul/cuda/persistent.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/tile/cuda/launch.h"

namespace weft::cuda {

void reduce(Stream& stream, const ReduceArgs& args);

namespace {

// f'(x), approximate if Out is bf16.
template <class Out>
__device__ __forceinline__ float slope(float x, Activation kind) {
  if constexpr (sizeof(Out) == 2)
    return slope_approx(x, kind);
  else
    return slope_precise(x, kind);
}

template <class Out>
struct Epilogue {
  const float* product;  // [batch, M, N], contiguous; absent: nothing was multiplied
  const Out* before;     // C, where beta is not 0
  const void* bias;
  Out *c, *pre;
  const Out* slope_of;  // null: the epilogue is f, else the gradient of f
  int64_t M, N, inner, count;
  MatmulPlan::Matrix c_at, pre_at, slope_at;
  float beta;
  bool wide_bias;  // f32
  Activation activation;
};

// Equation: pre = product + beta C + bias, c = f(pre); or c = product f'(slope_of).
// Layout:   product [batch, M, N] packed; c, pre and slope_of with strides for the batch axes and rows, bias [N].
// Order:    elementwise, one element per thread.
// Requires: product holds alpha op(A) op(B) in f32 (absent where K = 0).
// Traffic:  one read of each operand, one write of c and pre.
template <class Out>
__global__ void finish(const Epilogue<Out> e) {
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < e.count; i += int64_t(gridDim.x) * blockDim.x) {
    const int64_t n = i % e.N, m = i / e.N % e.M, matrix = i / e.N / e.M;
    const auto at = [&](const MatmulPlan::Matrix& where) {
      return matrix / e.inner * where.outer + matrix % e.inner * where.inner + m * where.row + n;
    };
    float x = e.product ? e.product[i] : 0.0f;
    if (e.before) x = fmaf(e.beta, to_float(e.before[at(e.c_at)]), x);
    if (e.bias) x += bias_at<Out>(e.bias, e.wide_bias, n);
    if (e.pre) e.pre[at(e.pre_at)] = from_float<Out>(x);
    const float y = e.slope_of ? x * slope<Out>(to_float(e.slope_of[at(e.slope_at)]), e.activation) : activate(x, e.activation);
    e.c[at(e.c_at)] = from_float<Out>(y);
  }
}

// Equation: as finish.
// Layout:   one matrix; product [M, N] packed, c, pre and slope_of with a row stride each, bias [N].
// Order:    elementwise, eight of each of kWideRows rows to a thread.
// Requires: N a multiple of eight; rows of c, pre and slope_of, and bias, aligned to sixteen bytes.
// Traffic:  as finish, sixteen bytes at a time; all sums of a thread are loaded before the first is used.
constexpr int kWideRows = 4;
template <class Out>
__global__ void __launch_bounds__(128) finish_wide(const Epilogue<Out> e) {
  constexpr int kWidth = 8;
  const int64_t n = (int64_t(blockIdx.x) * 128 + threadIdx.x) * kWidth;
  if (n >= e.N) return;
  Chunk<float, kWidth> bias{};
  if (e.bias && e.wide_bias) bias = load_chunk<float, kWidth>(static_cast<const float*>(e.bias) + n);
  if (e.bias && !e.wide_bias) {
    const auto narrow = load_chunk<Out, kWidth>(static_cast<const Out*>(e.bias) + n);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) bias.at[i] = narrow[i];
  }
  for (int64_t first = int64_t(blockIdx.y) * kWideRows; first < e.M; first += int64_t(gridDim.y) * kWideRows) {
    Chunk<float, kWidth> product[kWideRows];
#pragma unroll
    for (int r = 0; r < kWideRows; ++r)
      if (first + r < e.M) product[r] = load_chunk<float, kWidth>(e.product + (first + r) * e.N + n);
#pragma unroll
    for (int r = 0; r < kWideRows; ++r) {
      const int64_t m = first + r;
      if (m >= e.M) break;
      float(&x)[kWidth] = product[r].at, y[kWidth];
      if (e.before) {
        const auto before = load_chunk<Out, kWidth>(e.before + m * e.c_at.row + n);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) x[i] = fmaf(e.beta, before[i], x[i]);
      }
      Chunk<Out, kWidth> pre, c;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if (e.bias) x[i] += bias.at[i];
        pre.set(i, x[i]);
      }
      if (e.pre) stream_chunk(pre, e.pre + m * e.pre_at.row + n);
      if (e.slope_of) {
        const auto at = load_chunk<Out, kWidth>(e.slope_of + m * e.slope_at.row + n);
#pragma unroll
        for (int i = 0; i < kWidth; ++i) y[i] = x[i] * slope<Out>(at[i], e.activation);
      } else {
        activate_all(x, y, e.activation);
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i) c.set(i, y[i]);
#pragma unroll
      for (int v = 0; v < c.kVectors; ++v)  // as an intrinsic: the compiler splits a plain store of what a branch has changed
        __stwb(reinterpret_cast<uint4*>(e.c + m * e.c_at.row + n) + v, reinterpret_cast<const uint4*>(c.at)[v]);
    }
  }
}

template <class Out>
bool takes_wide(const Epilogue<Out>& e) {
  const auto rows_aligned = [](const Out* at, const MatmulPlan::Matrix& matrix) {
    return aligned16(at) && matrix.row % kPerVector<Out> == 0;
  };
  return e.product && e.count == e.M * e.N && e.N % 8 == 0 && rows_aligned(e.c, e.c_at) && (!e.pre || rows_aligned(e.pre, e.pre_at)) &&
         (!e.slope_of || rows_aligned(e.slope_of, e.slope_at)) && aligned16(e.bias);
}

// The largest power of two up to 16 that divides every row's first byte.
int alignment(const View& view, const MatmulPlan::Matrix& m) {
  const int64_t size = size_of(view.dtype);
  const auto bytes = uintptr_t(data<char>(view)) | uintptr_t(m.row * size) | uintptr_t(m.outer * size) | uintptr_t(m.inner * size);
  int aligned = 16;
  while (bytes % uintptr_t(aligned) != 0) aligned /= 2;
  return aligned;
}

// A forward product of one matrix, whose rows must not depend on each other: summed in the one order. tf32 is asked for where speed
// matters more.
bool ordered(const MatmulArgs& a, const MatmulPlan& p) {
  return !a.any_order && !a.transpose_a && p.batch() == 1 && p.K > 0 && a.precision == Precision::f32;
}

// d = alpha op(A) op(B) + beta d (+ bias), one strided batch per step along the outer batch axis. False, and nothing done, if cuBLASLt
// has not the one order where it must.
bool multiply(Stream& stream, const MatmulArgs& a, const MatmulPlan& plan, void* d, DType out, const MatmulPlan::Matrix& d_at,
              int d_alignment, bool with_bias, float beta) {
  BlasProduct p{.in = a.a.dtype,
                .out = out,
                .tf32 = a.precision == Precision::tf32,
                .transpose_a = a.transpose_a,
                .transpose_b = a.transpose_b,
                .M = plan.M,
                .N = plan.N,
                .K = plan.K,
                .lda = plan.a.row,
                .ldb = plan.b.row,
                .ldd = d_at.row,
                .batch = plan.inner,
                .step_a = plan.a.inner,
                .step_b = plan.b.inner,
                .step_d = d_at.inner,
                .bias = with_bias,
                .bias_dtype = with_bias ? a.bias.dtype : DType::f32,
                .align_a = alignment(a.a, plan.a),
                .align_b = alignment(a.b, plan.b),
                .align_d = d_alignment,
                .ordered = ordered(a, plan),
                .alpha = a.alpha,
                .beta = beta};
  const auto step = [](const View& view, int64_t elements) { return data<char>(view) + elements * size_of(view.dtype); };
  for (int64_t o = 0; o < plan.outer; ++o)
    if (!blas(stream).multiply(stream, p, step(a.a, o * plan.a.outer), step(a.b, o * plan.b.outer),
                               static_cast<char*>(d) + o * d_at.outer * size_of(out), with_bias ? data<char>(a.bias) : nullptr))
      return false;
  return true;
}

// GELU of many rows is computed by our own kernel. Without an epilogue, or with a bias only, cuBLASLt writes c. Otherwise cuBLASLt writes
// the f32 sum to workspace and finish() applies the epilogue to the unrounded value.
template <class Out>
void run(Stream& stream, const MatmulArgs& a) {
  const MatmulPlan p = plan(a);
  const int64_t count = p.batch() * p.M * p.N;
  if (count == 0) return;
  const auto by_our_own = [&] { multiply_few_rows(stream, {&a, 1}); };
  if (ordered(a, p) && p.M <= kFewRows) return by_our_own();
  const bool biased = !a.bias || (alignment(a.c, p.c) == 16 && aligned16(data<char>(a.bias)));  // as cuBLASLt's epilogue requires
  const bool plain = a.activation == Activation::none && !a.pre && !a.slope_of && p.K > 0 && biased;
  if (plain) {
    if (!multiply(stream, a, p, data<char>(a.c), a.c.dtype, p.c, alignment(a.c, p.c), bool(a.bias), a.beta)) by_our_own();
    return;
  }

  const Scratch<float> product(stream, p.K > 0 ? count : 0);
  const MatmulPlan::Matrix packed{p.N, p.inner * p.M * p.N, p.M * p.N};
  int packed_alignment = 16;
  while (p.N * 4 % packed_alignment != 0) packed_alignment /= 2;
  if (p.K > 0 && !multiply(stream, a, p, product.data(), DType::f32, packed, packed_alignment, false, 0)) return by_our_own();
  const Epilogue<Out> e{p.K > 0 ? product.data() : nullptr,
                        a.beta != 0 ? data<Out>(a.c) : nullptr,
                        data<char>(a.bias),
                        data<Out>(a.c),
                        data<Out>(a.pre),
                        data<Out>(a.slope_of),
                        p.M,
                        p.N,
                        p.inner,
                        count,
                        p.c,
                        p.pre,
                        p.slope_of,
                        a.beta,
                        a.bias && a.bias.dtype == DType::f32,
                        a.activation};
  const Launch launch(stream, a.kOp, {&a.a, &a.b, &a.c});
  if (takes_wide(e)) {
    const dim3 grid(unsigned((p.N + 1023) / 1024), unsigned(std::min<int64_t>((p.M + kWideRows - 1) / kWideRows, 65535)));
    launch(grid, 128, 0, finish_wide<Out>, e);
  } else {
    launch(blocks_for(stream, count, 256), 256, 0, finish<Out>, e);
  }
}

// Computes the column sums over the rows of all matrices of c.
void sum_columns(Stream& stream, const MatmulArgs& a) {
  const MatmulPlan p = plan(a);
  MutView c = a.c;
  c.shape = {p.M, p.N}, c.strides = {p.c.row, 1};
  cuda::reduce(stream, {.x = c, .y = a.column_sums, .axis = 0, .kind = Reduction::sum});
}

}  // namespace

void matmul(Stream& stream, const MatmulArgs& args) {
  if (args.scales) return multiply_int8(stream, args);
  if (const MatmulPlan p = plan(args); takes_persistent(stream, args, p)) return multiply_persistent(stream, args, p);
  dispatch_device<float, bf16>(args.c.dtype, [&]<class Out>() { run<Out>(stream, args); });
  if (args.column_sums) sum_columns(stream, args);
}

}  // namespace weft::cuda
