#include "weft/ops/adamw/adamw.h"
#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/pieces.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kWidth = 4, kTurns = 2, kPiece = kThreads * kWidth * kTurns;
constexpr int kMost = 48;  // tensors to a launch: their operands fill a kernel's 4 KiB of parameters

struct Operands {
  void* param;
  const void* grad;
  float *m, *v, *master;
  int64_t count;
  float weight_decay;
  bool narrow_param, narrow_grad, aligned;  // narrow: bf16
};
using Tensors = Batch<Operands, kMost>;
static_assert(sizeof(Tensors) < 3900);  // room for the other parameters

struct Scalars {
  const float *lr, *grad_scale;
  const int32_t* step;
  double beta1, beta2, eps;
  Fault* fault;
  const char* op;
};

// Coefficients of all elements, computed in double and rounded once.
struct Coefficients {
  float beta1, rest1, beta2, rest2;  // rest = 1 - beta
  float step_size;                   // lr / (1 - b1^t)
  float spread;                      // 1 / sqrt(1 - b2^t)
  float eps, grad_scale;
  double lr;
  bool bad_step;
};

__device__ double power(double base, int exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

// Equation: the coefficients of one step, powers and roots in float64, rounded once.
// Layout:   scalars in device memory; k one struct, which step() reads.
// Order:    one thread, before step() starts.
// Requires: step >= 1, else a fault, a step size of NaN, and nothing is updated.
// Traffic:  a few scalars.
__global__ void prepare(const Scalars s, Coefficients* k) {
  const double lr = *s.lr;
  const int step = *s.step;
  if (step < 1) report(s.fault, Fault::bad_step, s.op, step, 0, 0);
  *k = {float(s.beta1),
        float(1 - s.beta1),
        float(s.beta2),
        float(1 - s.beta2),
        float(lr / (1 - power(s.beta1, step))),
        float(1 / sqrt(1 - power(s.beta2, step))),
        float(s.eps),
        s.grad_scale ? *s.grad_scale : 1.0f,
        lr,
        step < 1};
}

// Four elements of a tensor in registers.
struct Four {
  float g[kWidth], m[kWidth], v[kWidth], p[kWidth];

  __device__ __forceinline__ void update(const Coefficients& k, float decay) {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const float scaled = g[j] * k.grad_scale;
      m[j] = fmaf(scaled, k.rest1, m[j] * k.beta1);
      v[j] = fmaf(scaled * scaled, k.rest2, v[j] * k.beta2);
      const float change = m[j] / fmaf(sqrtf(v[j]), k.spread, k.eps);
      p[j] = fmaf(-change, k.step_size, fmaf(-p[j], decay, p[j]));
    }
  }
};

__device__ __forceinline__ void load_four(float (&x)[kWidth], const float* from) {
  *reinterpret_cast<float4*>(x) = *reinterpret_cast<const float4*>(from);
}
__device__ __forceinline__ void load_four(float (&x)[kWidth], const __nv_bfloat16* from) {
  __nv_bfloat16 narrow[kWidth];
  *reinterpret_cast<uint2*>(narrow) = *reinterpret_cast<const uint2*>(from);
#pragma unroll
  for (int j = 0; j < kWidth; ++j) x[j] = to_float(narrow[j]);
}
__device__ __forceinline__ void store_four(const float (&x)[kWidth], float* to) {
  *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(x);
}
__device__ __forceinline__ void store_four(const float (&x)[kWidth], __nv_bfloat16* to) {
  __nv_bfloat16 narrow[kWidth];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) narrow[j] = from_float<__nv_bfloat16>(x[j]);
  *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(narrow);
}

// Equation: the four of adamw.h; lr m^ / (sqrt(v^) + eps) as step_size m / (sqrt(v) spread + eps).
// Layout:   all packed; T is param's type, G grad's. p is master, or param itself.
// Order:    every element on its own; a block takes a piece of 2048, a thread twice four of them, loaded before any is used.
// Requires: packed operands of one shape (the contract's); step >= 1, else a fault and no update.
// Traffic:  one read of grad, one read and one write of p, m and v; one write of a bf16 param.
template <class T, class G>
__device__ __forceinline__ void update(const Operands& o, const Coefficients& k, int64_t first, int64_t last) {
  T* param = static_cast<T*>(o.param);
  const G* grad = static_cast<const G*>(o.grad);
  float* p = std::is_same_v<T, float> ? reinterpret_cast<float*>(param) : o.master;
  const float decay = float(k.lr * double(o.weight_decay));
  if (o.aligned && last - first == kPiece) {
    Four four[kTurns];
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int64_t i = first + (turn * kThreads + int64_t(threadIdx.x)) * kWidth;
      load_four(four[turn].g, grad + i);
      load_four(four[turn].m, o.m + i);
      load_four(four[turn].v, o.v + i);
      load_four(four[turn].p, p + i);
    }
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const int64_t i = first + (turn * kThreads + int64_t(threadIdx.x)) * kWidth;
      four[turn].update(k, decay);
      store_four(four[turn].m, o.m + i);
      store_four(four[turn].v, o.v + i);
      store_four(four[turn].p, p + i);
      if constexpr (!std::is_same_v<T, float>) store_four(four[turn].p, param + i);
    }
    return;
  }
  for (int64_t i = first + threadIdx.x; i < last; i += kThreads) {  // one by one
    Four one{{to_float(grad[i])}, {o.m[i]}, {o.v[i]}, {p[i]}};
    one.update(k, decay);
    o.m[i] = one.m[0];
    o.v[i] = one.v[0];
    p[i] = one.p[0];
    if constexpr (!std::is_same_v<T, float>) param[i] = from_float<T>(one.p[0]);
  }
}

// Equation, traffic: update()'s, for every tensor of a batch.
// Layout:   tensors by value, as a kernel argument (pieces.cuh).
// Order:    a block per piece of 2048 elements.
// Requires: prepare() has run; after a bad step nothing is done.
__global__ void __launch_bounds__(kThreads) step(const Tensors tensors, const Coefficients* coefficients) {
  const Coefficients k = *coefficients;
  if (k.bad_step) return;
  const int index = tensors.find(blockIdx.x);
  const Operands& o = tensors.tensor[index];
  const int64_t first = int64_t(blockIdx.x - tensors.first[index]) * kPiece, last = first + kPiece < o.count ? first + kPiece : o.count;
  if (o.narrow_param)
    o.narrow_grad ? update<__nv_bfloat16, __nv_bfloat16>(o, k, first, last) : update<__nv_bfloat16, float>(o, k, first, last);
  else
    o.narrow_grad ? update<float, __nv_bfloat16>(o, k, first, last) : update<float, float>(o, k, first, last);
}

}  // namespace

void adamw(Stream& stream, const AdamwArgs& a) {
  const Launch launch(stream, a.kOp, {&a.lr, &a.step});
  const Scalars scalars{data<float>(a.lr), data<float>(a.grad_scale), data<int32_t>(a.step), a.beta1, a.beta2, a.eps, launch.fault(),
                        launch.op()};
  const Scratch<Coefficients> coefficients(stream, 1);
  launch(1, 1, 0, prepare, scalars, coefficients.data());
  std::vector<Operands> operands;
  for (const AdamwTensor& t : a.tensors) {
    Operands o{data<char>(t.param),
               data<char>(t.grad),
               data<float>(t.m),
               data<float>(t.v),
               data<float>(t.master),
               t.param.numel(),
               t.weight_decay,
               t.param.dtype == DType::bf16,
               t.grad.dtype == DType::bf16,
               false};
    o.aligned = aligned16(o.param) && aligned16(o.grad) && aligned16(o.m) && aligned16(o.v) && aligned16(o.master);
    operands.push_back(o);
  }
  in_batches<Operands, kMost>(
      operands, kPiece, [](const Operands& o) { return o.count; },
      [&](const Tensors& batch, unsigned pieces, unsigned) { launch(pieces, kThreads, 0, step, batch, coefficients.data()); });
}

}  // namespace weft::cuda
