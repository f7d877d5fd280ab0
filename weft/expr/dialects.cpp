#include "weft/expr/dialects.h"

#include "weft/expr/cuda_functions.h"

namespace weft::expr {
namespace {

// Rounds to bf16 to nearest even; NaN stays a quiet NaN: bit arithmetic, or (CUDA) an instruction of sm_80.
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
    .lane = nullptr,
    .start_together = nullptr,
    .start =
        "  const int64_t first = 0, step = 1;\n"
        "  for (int64_t chunk = first; chunk < layout.chunks; chunk += step) {\n",
    .start_of_several = nullptr,
    .filling = "",
    .next = "continue;",
    .unroll = "",
    .one_by_one = "",
    .bits = "__builtin_bit_cast(float, $)",
};

constexpr Spelling kCuda = {
    .name = "CUDA",
    .prologue = "",
    .f32_type = "float",
    .f32_access = R"(__device__ __forceinline__ float load(const float* p) { return *p; }
__device__ __forceinline__ void store(float x, float* p) { *p = x; }
__device__ __forceinline__ void widen(unsigned word, float* x, const float*) { *x = __uint_as_float(word); }
__device__ __forceinline__ unsigned narrow(const float* x, const float*) { return __float_as_uint(*x); }
)",
    .bf16_type = "bf16",
    .bf16_access = R"(struct bf16 { unsigned short bits; };
__device__ __forceinline__ float load(const bf16* p) { return __uint_as_float((unsigned)p->bits << 16); }
__device__ __forceinline__ void store(float x, bf16* p) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(p->bits) : "f"(x)); }
__device__ __forceinline__ void widen(unsigned word, float* x, const bf16*) {
  x[0] = __uint_as_float(word << 16);
  x[1] = __uint_as_float(word & 0xffff0000u);
}
__device__ __forceinline__ unsigned narrow(const float* x, const bf16*) {
  unsigned word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(x[1]), "f"(x[0]));
  return word;
}
)",
    .f16_type = "f16",
    .f16_access = R"(struct f16 { unsigned short bits; };
__device__ __forceinline__ float widen(unsigned short bits) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(bits));
  return y;
}
__device__ __forceinline__ float load(const f16* p) { return widen(p->bits); }
__device__ __forceinline__ void store(float x, f16* p) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(p->bits) : "f"(x)); }
__device__ __forceinline__ void widen(unsigned word, float* x, const f16*) {
  x[0] = widen((unsigned short)word);
  x[1] = widen((unsigned short)(word >> 16));
}
__device__ __forceinline__ unsigned narrow(const float* x, const f16*) {
  unsigned word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(x[1]), "f"(x[0]));
  return word;
}
)",
    .vectors = R"(template <int N, class T> __device__ __forceinline__ void load(const T* p, float* x) {
  constexpr int n = 4 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N; j += 4 * n) {
    const uint4 v = *reinterpret_cast<const uint4*>(p + j);
    widen(v.x, x + j, p);
    widen(v.y, x + j + n, p);
    widen(v.z, x + j + 2 * n, p);
    widen(v.w, x + j + 3 * n, p);
  }
}
template <int N, class T> __device__ __forceinline__ void store(const float* x, T* p, bool past_caches) {
  constexpr int n = 4 / sizeof(T);
#pragma unroll
  for (int j = 0; j < N; j += 4 * n) {
    const uint4 v = {narrow(x + j, p), narrow(x + j + n, p), narrow(x + j + 2 * n, p), narrow(x + j + 3 * n, p)};
    uint4* to = reinterpret_cast<uint4*>(p + j);
    if (past_caches) __stcs(to, v);
    else *to = v;
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
    .lane = nullptr,
    .start_together = nullptr,
    .start =
        "  const long long chunk = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  if (chunk < layout.chunks) {\n",
    .start_of_several =
        "  const long long chunk = (long long)blockIdx.x * ($ * blockDim.x) + threadIdx.x;\n"
        "  if (chunk < layout.chunks) {\n",
    .filling = "__launch_bounds__(128, 16) ",
    .next = "return;",
    .unroll = "#pragma unroll\n",
    .one_by_one = "#pragma unroll 1\n",
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
    .kernel = "[[max_total_threads_per_threadgroup(256)]] kernel void ",
    .reference = "thread float&",
    .from = "device const ",
    .to = "device ",
    .uniform = "constant ",
    .bindings = true,
    .position = "uint position [[thread_position_in_grid]], uint size [[threads_per_grid]]",
    .lane = "uint lane [[thread_index_in_simdgroup]]",
    .start_together =
        "  for (long start = position - lane; start < layout.chunks; start += size) {\n"
        "    const bool inside = start + lane < layout.chunks;\n"
        "    const long chunk = inside ? start + lane : layout.chunks - 1;\n",
    .start =
        "  const long first = position, step = size;\n"
        "  for (long chunk = first; chunk < layout.chunks; chunk += step) {\n",
    .start_of_several = nullptr,
    .filling = "",
    .next = "continue;",
    .unroll = "",
    .one_by_one = "",
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
    {Op::log1p, "log1pf($a)", "log1p_of($a)", "log1p_of($a)"},
    {Op::sqrt, "sqrtf($a)", nullptr, "precise::sqrt($a)"},
    {Op::rsqrt, "1.0f / sqrtf($a)", "rsqrtf($a)", "precise::rsqrt($a)"},
    {Op::reciprocal, "1.0f / $a"},
    {Op::sin, "sinf($a)", "sin_of($a)", "precise::sin($a)"},
    {Op::cos, "cosf($a)", nullptr, "precise::cos($a)"},
    {Op::tan, "tanf($a)", nullptr, "precise::tan($a)"},
    {Op::tanh, "tanhf($a)", "tanh_of($a)", "precise::tanh($a)"},
    {Op::sigmoid, "1.0f / (1.0f + expf(-$a))", "sigmoid_of($a)", "sigmoid_of($a)"},
    {Op::erf, "erff($a)", nullptr, "erf_of($a)"},
    {Op::floor, "floorf($a)", nullptr, "floor($a)"},
    {Op::round, "rintf($a)", nullptr, "rint($a)"},
    {Op::add, "$a + $b"},
    {Op::sub, "$a - $b"},
    {Op::mul, "$a * $b"},
    {Op::div, "$a / $b"},
    // NaN if either operand is NaN, unlike fminf and fmaxf.
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

// Metal has neither. log1p: with u = fl(1 + x), corrects the rounding of u by (x - (u - 1)) / u. erf: x + x P(x^2) below 1, 1 - 2^Q(|x|) up
// to 4, from where it rounds to 1; our own minimax fits, within 2 ulp.
constexpr const char* kMetalLog1p = R"(static inline float log1p_of(float x) {
  const float u = 1.0f + x, d = u - 1.0f;
  return d == 0.0f ? x : d == x ? precise::log(u) : precise::log(u) + (x - d) / u;
}
)";
// Accurate for small results too: 1 / (1 + e^-x) has none below e^-88.
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

const char* quick_spelling(Dialect dialect, Op op) {
  if (dialect != Dialect::cuda) return nullptr;
  switch (op) {
    case Op::exp: return "exp_quick($a)";
    case Op::exp2: return "exp2_quick($a)";
    case Op::sigmoid: return "sigmoid_quick($a)";
    case Op::sqrt: return "sqrt_quick($a, rare)";
    case Op::reciprocal: return "reciprocal_quick($a, rare)";
    case Op::sin: return "sin_quick($a)";
    case Op::log1p: return "log1p_quick($a, rare)";
    default: return nullptr;
  }
}

float quick_limit(Dialect dialect, Op op) {
  if (dialect != Dialect::cuda) return 0;
  switch (op) {
    case Op::exp: return 87.0f;
    case Op::exp2: return 125.5f;
    case Op::sigmoid: return 87.0f;
    case Op::sin: return 0x1p17f;
    default: return 0;
  }
}

std::vector<const char*> helpers(Dialect dialect, Op op) {
  if (dialect == Dialect::msl) {
    if (op == Op::log1p) return {kMetalLog1p};
    if (op == Op::erf) return {kMetalErf};
    if (op == Op::sigmoid) return {kMetalSigmoid};
  }
  if (dialect == Dialect::cuda) {
    using namespace cuda_text;
    switch (op) {
      case Op::exp: return {kExpReduced, kScale, kExp};
      case Op::exp2: return {kScale, kExp2};
      case Op::sigmoid: return {kExpReduced, kScale, kExp, kSigmoid};
      case Op::sqrt: return {kSqrt};
      case Op::reciprocal: return {kReciprocal};
      case Op::tanh: return {kTanh};
      case Op::sin: return {kSin};
      case Op::log1p: return {kLog1p};
      default: break;
    }
  }
  return {};
}

}  // namespace weft::expr
