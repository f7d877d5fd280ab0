#include "weft/ops/adamw/adamw.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/adamw/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/pieces.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Coefficients of all elements, computed in double and rounded once.
struct Coefficients {
  float beta1, rest1, beta2, rest2;  // rest = 1 - beta
  float step_size;                   // lr / (1 - b1^t)
  float spread;                      // 1 / sqrt(1 - b2^t)
  float eps, grad_scale;
  double lr;
};

HWY_INLINE double power(double base, int32_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) result *= base;
  return result;
}

HWY_INLINE Coefficients coefficients(const AdamwArgs& a, int32_t t) {
  const double lr = *data<float>(a.lr);
  return {float(a.beta1),
          float(1 - a.beta1),
          float(a.beta2),
          float(1 - a.beta2),
          float(lr / (1 - power(a.beta1, t))),
          float(1 / __builtin_sqrt(1 - power(a.beta2, t))),
          float(a.eps),
          a.grad_scale ? *data<float>(a.grad_scale) : 1.0f,
          lr};
}

// Equation: the four of adamw.h, for elements [first, first + n) of one tensor; lr m^ / (sqrt(v^) + eps) as
//           step_size m / (sqrt(v) spread + eps).
// Layout:   all packed; T is param's type, G grad's. p is master, or param itself.
// Order:    every element on its own; pieces of 32 Ki elements are the tasks.
// Requires: packed operands of one shape (the contract's); step >= 1 (a fault otherwise).
// Traffic:  one read of grad, one read and one write of p, m and v; one write of a bf16 param.
template <class T, class G>
void update(const AdamwTensor& tensor, const Coefficients& k, int64_t first, int64_t n) {
  T* param = data<T>(tensor.param) + first;
  float *m = data<float>(tensor.m) + first, *v = data<float>(tensor.v) + first;
  float* p = std::is_same_v<T, float> ? reinterpret_cast<float*>(param) : data<float>(tensor.master) + first;
  const G* grad = data<G>(tensor.grad) + first;
  const F32x16 decay = splat(float(k.lr * double(tensor.weight_decay)));
  for_each_block(n, [&](At at) HWY_ATTR {
    const F32x16 g = at.load(grad) * splat(k.grad_scale);
    const F32x16 mean = fma(g, splat(k.rest1), at.load(m) * splat(k.beta1));
    const F32x16 square = fma(g * g, splat(k.rest2), at.load(v) * splat(k.beta2));
    const F32x16 change = mean / fma(sqrt(square), splat(k.spread), splat(k.eps));
    const F32x16 before = at.load(p), after = fnma(change, splat(k.step_size), fnma(before, decay, before));
    at.store(mean, m);
    at.store(square, v);
    at.store(after, p);
    if constexpr (!std::is_same_v<T, float>) at.store(after, param);
  });
}

}  // namespace

void adamw(Stream& stream, const AdamwArgs& a) {
  const int32_t step = *data<int32_t>(a.step);
  if (step < 1) return stream.report(join("step is ", step, ", expected 1 or more"));
  const Coefficients k = coefficients(a, step);
  const Pieces pieces(a.tensors.size(), 32768, [&](size_t i) { return a.tensors[i].param.numel(); });
  parallel_for(pieces.count(), threads(stream), [&](int64_t task) HWY_ATTR {
    const Piece piece = pieces.at(task);
    const AdamwTensor& tensor = a.tensors[piece.tensor];
    dispatch<float, bf16>(tensor.param.dtype, [&]<class T>() {
      dispatch<float, bf16>(tensor.grad.dtype, [&]<class G>() { update<T, G>(tensor, k, piece.first, piece.count); });
    });
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(adamw, AdamwArgs)
#endif
