#include "weft/expr/dialects.h"

namespace weft::expr {
namespace {

// Rounding to bf16 is to nearest even and NaN stays a quiet NaN: bit arithmetic, or (CUDA) an instruction of sm_80.
constexpr Spelling kCpp = {
    .name = "C++",
    .prologue = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n",
    .f32_type = "float",
    .f32_access =
        "static inline float load(const float* p) { return *p; }\n"
        "static inline void store(float x, float* p) { *p = x; }\n",
    .bf16_type = "bf16",
    .bf16_access = R"(struct bf16 { uint16_t bits; };
static inline float load(const bf16* p) {
  const uint32_t u = (uint32_t)p->bits << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}
static inline void store(float x, bf16* p) {
  uint32_t u;
  memcpy(&u, &x, 4);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  p->bits = (uint16_t)(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
)",
    .f16_type = "_Float16",
    .f16_access =
        "static inline float load(const _Float16* p) { return (float)*p; }\n"
        "static inline void store(float x, _Float16* p) { *p = (_Float16)x; }\n",
    .vectors = nullptr,
    .integer = "int64_t",
    .small = "uint32_t",
    .function = "static inline ",
    .kernel = "extern \"C\" void ",
    .reference = "float&",
    .from = "const ",
    .to = "",
    .uniform = nullptr,
    .bindings = false,
    .position = nullptr,
    .start = "  const int64_t first = 0, step = 1;\n",
    .unroll = "",
    .bits = "__builtin_bit_cast(float, $)",
};

constexpr Spelling kCuda = {
    .name = "CUDA",
    .prologue = "",
    .f32_type = "float",
    .f32_access =
        "__device__ __forceinline__ float widen(float x) { return x; }\n"
        "__device__ __forceinline__ void narrow(float x, float& to) { to = x; }\n",
    .bf16_type = "bf16",
    .bf16_access = R"(struct bf16 { unsigned short bits; };
__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float((unsigned)x.bits << 16); }
__device__ __forceinline__ void narrow(float x, bf16& to) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
)",
    .f16_type = "f16",
    .f16_access = R"(struct f16 { unsigned short bits; };
__device__ __forceinline__ float widen(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ __forceinline__ void narrow(float x, f16& to) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x)); }
)",
    .vectors = R"(template <class T> __device__ __forceinline__ float load(const T* p) { return widen(*p); }
template <class T> __device__ __forceinline__ void store(float x, T* p) { narrow(x, *p); }
template <class T> struct alignas(16) Vector { T part[16 / sizeof(T)]; };
template <int N, class T> __device__ __forceinline__ void load(const T* p, float (&x)[N], bool past_caches) {
  constexpr int n = 16 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N / n; ++j) {
    Vector<T> v;
    const uint4* from = reinterpret_cast<const uint4*>(p) + j;
    *reinterpret_cast<uint4*>(v.part) = past_caches ? __ldcs(from) : *from;
#pragma unroll
    for (int k = 0; k < n; ++k) x[j * n + k] = widen(v.part[k]);
  }
}
template <int N, class T> __device__ __forceinline__ void store(const float (&x)[N], T* p, bool past_caches) {
  constexpr int n = 16 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N / n; ++j) {
    Vector<T> v;
#pragma unroll
    for (int k = 0; k < n; ++k) narrow(x[j * n + k], v.part[k]);
    uint4* to = reinterpret_cast<uint4*>(p) + j;
    if (past_caches) __stcs(to, *reinterpret_cast<const uint4*>(v.part));
    else *to = *reinterpret_cast<const uint4*>(v.part);
  }
}
)",
    .integer = "long long",
    .small = "unsigned",
    .function = "__device__ __forceinline__ ",
    .kernel = "extern \"C\" __global__ void ",
    .reference = "float&",
    .from = "const ",
    .to = "",
    .uniform = nullptr,
    .bindings = false,
    .position = nullptr,
    .start =
        "  const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, step = (long long)gridDim.x * blockDim.x;\n",
    .unroll = "#pragma unroll\n",
    .bits = "__uint_as_float($)",
};

constexpr Spelling kMetal = {
    .name = "Metal",
    .prologue = "#include <metal_stdlib>\nusing namespace metal;\n#pragma METAL fp contract(off)\n",
    .f32_type = "float",
    .f32_access =
        "static inline float load(device const float* p) { return *p; }\n"
        "static inline void store(float x, device float* p) { *p = x; }\n",
    .bf16_type = "bf16",
    .bf16_access = R"(struct bf16 { ushort bits; };
static inline float load(device const bf16* p) { return as_type<float>(uint(p->bits) << 16); }
static inline void store(float x, device bf16* p) {
  const uint u = as_type<uint>(x);
  const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
  p->bits = ushort(nan ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
)",
    .f16_type = "half",
    .f16_access =
        "static inline float load(device const half* p) { return float(*p); }\n"
        "static inline void store(float x, device half* p) { *p = half(x); }\n",
    .vectors = nullptr,
    .integer = "long",
    .small = "uint",
    .function = "static inline ",
    .kernel = "kernel void ",
    .reference = "thread float&",
    .from = "device const ",
    .to = "device ",
    .uniform = "constant ",
    .bindings = true,
    .position = "uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]",
    .start = "  const long first = position, step = size;\n",
    .unroll = "",
    .bits = "as_type<float>($)",
};

struct OpSpelling {
  Op op;
  const char* cpp;
  const char* cuda = nullptr;   // where it differs from C++
  const char* metal = nullptr;  //
};

constexpr OpSpelling kOpSpellings[] = {
    {Op::input, nullptr},
    {Op::parameter, nullptr},
    {Op::constant, nullptr},
    {Op::neg, "-$a"},
    {Op::abs, "fabsf($a)", nullptr, "fabs($a)"},
    {Op::exp, "expf($a)", "exp_of($a)", "precise::exp($a)"},
    {Op::exp2, "exp2f($a)", "exp2_of($a)", "precise::exp2($a)"},
    {Op::log, "logf($a)", nullptr, "precise::log($a)"},
    {Op::log2, "log2f($a)", nullptr, "precise::log2($a)"},
    {Op::log1p, "log1pf($a)", nullptr, "log1p_of($a)"},
    {Op::sqrt, "sqrtf($a)", nullptr, "precise::sqrt($a)"},
    {Op::rsqrt, "1.0f / sqrtf($a)", "rsqrtf($a)", "precise::rsqrt($a)"},
    {Op::reciprocal, "1.0f / $a"},
    {Op::sin, "sinf($a)", nullptr, "precise::sin($a)"},
    {Op::cos, "cosf($a)", nullptr, "precise::cos($a)"},
    {Op::tan, "tanf($a)", nullptr, "precise::tan($a)"},
    {Op::tanh, "tanhf($a)", nullptr, "precise::tanh($a)"},
    {Op::sigmoid, "1.0f / (1.0f + expf(-$a))", "sigmoid_of($a)", "sigmoid_of($a)"},
    {Op::erf, "erff($a)", nullptr, "erf_of($a)"},
    {Op::floor, "floorf($a)", nullptr, "floor($a)"},
    {Op::round, "rintf($a)", nullptr, "rint($a)"},
    {Op::add, "$a + $b"},
    {Op::sub, "$a - $b"},
    {Op::mul, "$a * $b"},
    {Op::div, "$a / $b"},
    // NaN when either is, which fminf and fmaxf are not.
    {Op::min, "$b < $a || $b != $b ? $b : $a"},
    {Op::max, "$a < $b || $b != $b ? $b : $a"},
    {Op::pow, "powf($a, $b)", "(float)pow((double)$a, (double)$b)", "precise::pow($a, $b)"},
    {Op::atan2, "atan2f($a, $b)", nullptr, "precise::atan2($a, $b)"},
    {Op::less, "$a < $b ? 1.0f : 0.0f"},
    {Op::less_equal, "$a <= $b ? 1.0f : 0.0f"},
    {Op::equal, "$a == $b ? 1.0f : 0.0f"},
    {Op::fma, "fmaf($a, $b, $c)", nullptr, "fma($a, $b, $c)"},
    {Op::select, "$a != 0.0f ? $b : $c"},
};

constexpr bool in_order() {
  int i = 0;
  for (const OpSpelling& s : kOpSpellings)
    if (int(s.op) != i++) return false;
  return i == kOps;
}
static_assert(in_order(), "one line per Op, in the order of the enum");

// Metal has neither. log1p: with u = fl(1 + x), the rounding of u is taken back: (x - (u - 1)) / u. erf: x + x P(x^2) below 1,
// 1 - 2^Q(|x|) up to 4, where it rounds to 1; minimax fits of our own, within 2 ulp.
constexpr const char* kMetalLog1p = R"(static inline float log1p_of(float x) {
  const float u = 1.0f + x, d = u - 1.0f;
  return d == 0.0f ? x : d == x ? precise::log(u) : precise::log(u) + (x - d) / u;
}
)";
// Small results too: 1 / (1 + e^-x) has none below e^-88.
constexpr const char* kMetalSigmoid = R"(static inline float sigmoid_of(float x) {
  const float e = precise::exp(-fabs(x));
  return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}
)";
constexpr const char* kMetalErf = R"(static inline float erf_of(float x) {
  const float a = fabs(x), t = x * x, b = a < 4.0f ? a : 4.0f;
  float p = fma(7.85386073e-05f, t, -0.000801019371f);
  p = fma(fma(fma(p, t, 0.00518832775f), t, -0.0268538129f), t, 0.112835854f);
  p = fma(fma(p, t, -0.37612626f), t, 0.12837917f);
  float q = fma(-3.13029996e-05f, b, 0.000636909856f);
  q = fma(fma(fma(q, b, -0.00606694072f), b, 0.036370825f), b, -0.156420007f);
  q = fma(fma(fma(q, b, -0.913538158f), b, -1.62963986f), b, 0.000271899684f);
  return a > 1.0f ? copysign(1.0f - precise::exp2(q), x) : fma(x, p, x);
}
)";

// The CPU's own (weft/tile/cpu/math.h), operation by operation: CUDA's expf and exp2f err by up to 2 ulp. A polynomial on the
// reduced argument, then two powers of two, of which the first product is exact; NaN passes the comparisons.
constexpr const char* kCudaScale = R"(__device__ __forceinline__ float scale_of(float p, float shifted) {
  const int n = __float_as_int(shifted) - 0x4b400000, half = n >> 1;
  return p * __int_as_float((half + 127) << 23) * __int_as_float((n - half + 127) << 23);
}
)";
constexpr const char* kCudaExpReduced = R"(__device__ __forceinline__ float exp_reduced(float r) {
  const float p = fmaf(fmaf(fmaf(fmaf(0.00138201076f, r, 0.00836868491f), r, 0.0416682735f), r, 0.166665211f), r, 0.49999994f);
  return fmaf(fmaf(p, r, 1.0f), r, 1.0f);
}
)";
constexpr const char* kCudaExp = R"(__device__ __forceinline__ float exp_of(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = fmaf(x, 0x1.715476p0f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  const float r = fmaf(-n, -0x1.05c61p-29f, fmaf(-n, 0x1.62e43p-1f, x));
  return scale_of(exp_reduced(r), shifted);
}
)";
constexpr const char* kCudaExp2 = R"(__device__ __forceinline__ float exp2_of(float x) {
  x = x < -151.0f ? -151.0f : x;
  x = x > 129.0f ? 129.0f : x;
  const float shifted = x + 0x1.8p23f, r = x - (shifted - 0x1.8p23f);
  float p = fmaf(0.000153264627f, r, 0.00133908063f);
  p = fmaf(fmaf(fmaf(p, r, 0.00961850584f), r, 0.0555035993f), r, 0.240226477f);
  return scale_of(fmaf(fmaf(p, r, 0.693147182f), r, 1.0f), shifted);
}
)";
constexpr const char* kCudaSigmoid = R"(__device__ __forceinline__ float sigmoid_of(float x) {
  const float a = -fabsf(x), b = a < -104.0f ? -104.0f : a;
  const float shifted = fmaf(b, 0x1.715476p0f, 0x1.8p23f), n = shifted - 0x1.8p23f;
  const float e = scale_of(exp_reduced(fmaf(-n, -0x1.05c61p-29f, fmaf(-n, 0x1.62e43p-1f, b))), shifted), d = 1.0f + e;
  float r;  // 1 / d: the hardware's guess, and a step of Newton's
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  r = fmaf(r, fmaf(-d, r, 1.0f), r);
  return (x < 0.0f ? e : 1.0f) * r;
}
)";

}  // namespace

const Spelling& spelling(Dialect dialect) {
  switch (dialect) {
    case Dialect::c: return kCpp;
    case Dialect::cuda: return kCuda;
    case Dialect::msl: return kMetal;
  }
  return kCpp;
}

const char* spelling(Dialect dialect, Op op) {
  const OpSpelling& s = kOpSpellings[int(op)];
  if (dialect == Dialect::cuda && s.cuda != nullptr) return s.cuda;
  if (dialect == Dialect::msl && s.metal != nullptr) return s.metal;
  return s.cpp;
}

std::vector<const char*> helpers(Dialect dialect, Op op) {
  if (dialect == Dialect::msl) {
    if (op == Op::log1p) return {kMetalLog1p};
    if (op == Op::erf) return {kMetalErf};
    if (op == Op::sigmoid) return {kMetalSigmoid};
  }
  if (dialect == Dialect::cuda) {
    if (op == Op::exp) return {kCudaScale, kCudaExpReduced, kCudaExp};
    if (op == Op::exp2) return {kCudaScale, kCudaExp2};
    if (op == Op::sigmoid) return {kCudaScale, kCudaExpReduced, kCudaSigmoid};
  }
  return {};
}

}  // namespace weft::expr
