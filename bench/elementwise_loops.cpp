#include "bench/elementwise_loops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/elementwise_loops.cpp"
#include <hwy/foreach_target.h>

#include "weft/tile/cpu/rows.h"
#include "weft/tile/cpu/trig.h"

HWY_BEFORE_NAMESPACE();
namespace weft::bench::HWY_NAMESPACE {
using namespace weft::cpu::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE V swiglu_of(V g, V u) { return hn::Mul(hn::Mul(g, sigmoid(g)), u); }

HWY_INLINE V gelu_of(V x, V) {
  const V u = hn::MulAdd(constant(0.0713548162726009f), hn::Mul(x, x), constant(1.59576912160573f));
  return hn::Mul(x, sigmoid(hn::Mul(x, u)));
}

HWY_INLINE V thirty_nodes_of(V a, V b) {
  const V t1 = hn::MulAdd(a, b, a), t2 = exp2(hn::Mul(t1, constant(0.25f))), t3 = hn::Add(hn::Abs(a), constant(1.0f)), t4 = log2(t3);
  const V t5 = hn::Sqrt(hn::MulAdd(b, b, t3)), t6 = sin(t1);
  const V t9 = hn::MulAdd(t6, t5, hn::IfThenElse(hn::Lt(a, b), t2, t4)), low = constant(-10.0f), high = constant(10.0f);
  const V t10 = hn::IfThenElse(hn::Lt(t9, low), low, t9), t11 = hn::IfThenElse(hn::Lt(high, t10), high, t10);
  const V t14 = hn::Div(hn::MulSub(t11, constant(0.5f), t4), t5);
  const V t17 = hn::Div(t14, hn::Add(exp2(hn::Neg(t14)), constant(1.0f)));
  const V t18 = hn::IfThenElse(hn::Lt(hn::Zero(D()), t17), t17, hn::Mul(t17, constant(0.1f)));
  return hn::MulAdd(t18, b, t6);
}

template <V (*kFunction)(V, V), bool kTwo>
HWY_INLINE void loop(const float* a, const float* b, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V x = hn::LoadU(D(), a + i);
    hn::StoreU(kFunction(x, kTwo ? hn::LoadU(D(), b + i) : x), D(), y + i);
  }
  if (i < n) {
    const F32x16 x = load_n(a + i, n - i), z = kTwo ? load_n(b + i, n - i) : x;
    F32x16 r;
    for (int p = 0; p < kParts; ++p) r.part[p] = kFunction(x.part[p], z.part[p]);
    store_n(r, y + i, n - i);
  }
}

void swiglu(const float* a, const float* b, float* y, int64_t n) { loop<swiglu_of, true>(a, b, y, n); }
void gelu_tanh(const float* a, const float* b, float* y, int64_t n) { loop<gelu_of, false>(a, b, y, n); }
void thirty_nodes(const float* a, const float* b, float* y, int64_t n) { loop<thirty_nodes_of, true>(a, b, y, n); }

}  // namespace weft::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::bench {
HWY_EXPORT(swiglu);
HWY_EXPORT(gelu_tanh);
HWY_EXPORT(thirty_nodes);

ElementwiseLoop elementwise_loop(std::string_view variant) {
  if (variant == "swiglu") return HWY_DYNAMIC_DISPATCH(swiglu);
  if (variant == "gelu_tanh") return HWY_DYNAMIC_DISPATCH(gelu_tanh);
  if (variant == "thirty_nodes") return HWY_DYNAMIC_DISPATCH(thirty_nodes);
  return nullptr;
}
}  // namespace weft::bench
#endif
