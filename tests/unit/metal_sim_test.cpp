// Correct kernels run as Metal specifies, in every order.
#include "tests/unit/metal_sim_cases.h"

#include <numeric>

namespace weft::metal {
namespace {

class MetalSim : public testing::TestWithParam<SimMode> {
 protected:
  std::unique_ptr<Gpu> gpu_ = open_simulator(GetParam());
};

std::vector<float> ramp(size_t count) {
  std::vector<float> v(count);
  std::iota(v.begin(), v.end(), 1.0f);
  return v;
}

TEST_P(MetalSim, SeveralKernelsAndPositions) {
  const std::string text = R"(
#include <metal_stdlib>
using namespace metal;
struct Params { int64_t count; float scale; int32_t pad; };
kernel void scale(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], constant Params& p [[buffer(2)]],
                  uint i [[thread_position_in_grid]]) {
  if (i >= p.count) return;
  y[i] = p.scale * x[i];
}
kernel void place(device uint* out [[buffer(0)]], uint3 group [[threadgroup_position_in_grid]], uint3 groups [[threadgroups_per_grid]],
                  ushort thread_index [[thread_index_in_threadgroup]], uint size [[threads_per_threadgroup]],
                  uint lane [[thread_index_in_simdgroup]], uint warp [[simdgroup_index_in_threadgroup]]) {
  const uint at = (group.z * groups.y + group.y) * groups.x + group.x;
  out[at * size + thread_index] = at * 10000 + warp * 100 + lane;
}
)";
  struct Params {
    int64_t count;
    float scale;
    int32_t pad;
  };
  Data<float> x(*gpu_, ramp(100)), y(*gpu_, std::vector<float>(100));
  run(*gpu_, text, {"scale", {x.at(0), y.at(1), copied(2, Params{100, 2.5f, 0})}, {2, 1, 1}, 64});
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(y.values()[i], 2.5f * float(i + 1));

  Data<uint32_t> out(*gpu_, std::vector<uint32_t>(3 * 2 * 2 * 64));
  run(*gpu_, text, {"place", {out.at(0)}, {3, 2, 2}, 64});
  const auto places = out.values();
  for (uint32_t i = 0; i < places.size(); ++i) EXPECT_EQ(places[i], i / 64 * 10000 + i % 64 / 32 * 100 + i % 32);
}

TEST_P(MetalSim, BarriersAndThreadgroupMemory) {
  const std::string text = R"(
#include <metal_stdlib>
using namespace metal;
kernel void sums(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], threadgroup float* dynamic [[threadgroup(0)]],
                 uint g [[threadgroup_position_in_grid]], uint i [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  threadgroup float fixed[2][128], last;
  fixed[1][i] = x[g * n + i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint s = n / 2; s > 0; s >>= 1) {
    if (i < s) fixed[1][i] += fixed[1][i + s];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (i == 0) last = fixed[1][0];
  dynamic[n - 1 - i] = x[g * n + i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[g * n + i] = last + dynamic[i];
}
)";
  Data<float> x(*gpu_, ramp(128 * 5)), y(*gpu_, std::vector<float>(128 * 5));
  run(*gpu_, text, {"sums", {x.at(0), y.at(1)}, {5, 1, 1}, 128, 512});
  const auto got = y.values();
  for (size_t g = 0; g < 5; ++g) {
    const float sum = float(128 * (128 * g) + 128 * 129 / 2);
    for (size_t i = 0; i < 128; ++i) ASSERT_EQ(got[g * 128 + i], sum + float(g * 128 + 127 - i + 1));
  }
}

TEST_P(MetalSim, SimdgroupFunctions) {
  const std::string text = R"(
#include <metal_stdlib>
using namespace metal;
kernel void lanes(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  const float x = float(i);
  device float* row = out + i * 12;
  row[0] = simd_sum(x);
  row[1] = simd_shuffle_xor(x, 5);
  row[2] = simd_shuffle_down(x, 3);
  row[3] = simd_shuffle_up(x, 3);
  row[4] = simd_broadcast(x, 7);
  row[5] = simd_max(-x);
  row[6] = simd_prefix_exclusive_sum(x);
  row[7] = float(ulong(simd_ballot(lane % 3 == 0)));
  row[8] = simd_all(lane < 32) ? 1.0f : 0.0f;
  float part = -1.0f;
  if (lane < 8) part = simd_sum(x);
  row[9] = part;
  row[10] = simd_shuffle(x, ushort(31 - lane));
  row[11] = simd_any(lane == 40) ? 1.0f : 0.0f;
}
)";
  Data<float> out(*gpu_, std::vector<float>(64 * 12));
  run(*gpu_, text, {"lanes", {out.at(0)}, {1, 1, 1}, 64});
  const auto got = out.values();
  for (int i = 0; i < 64; ++i) {
    const int lane = i % 32, base = i - lane;
    const float* row = &got[size_t(i) * 12];
    EXPECT_EQ(row[0], float(32 * base + 31 * 16));
    EXPECT_EQ(row[1], float(base + (lane ^ 5)));
    EXPECT_EQ(row[2], float(lane + 3 < 32 ? i + 3 : i));
    EXPECT_EQ(row[3], float(lane >= 3 ? i - 3 : i));
    EXPECT_EQ(row[4], float(base + 7));
    EXPECT_EQ(row[5], float(-base));
    EXPECT_EQ(row[6], float(lane * base + lane * (lane - 1) / 2));
    EXPECT_EQ(row[7], float(0x49249249u));
    EXPECT_EQ(row[8], 1.0f);
    EXPECT_EQ(row[9], lane < 8 ? float(8 * base + 28) : -1.0f);
    EXPECT_EQ(row[10], float(base + 31 - lane));
    EXPECT_EQ(row[11], 0.0f);
  }
}

TEST_P(MetalSim, MatrixProductsOfEveryType) {
  const std::string text = R"(
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;
template <class T>
kernel void product(device const float* x [[buffer(0)]], device const float* y [[buffer(1)]], device float* z [[buffer(2)]],
                    uint lane [[thread_index_in_simdgroup]]) {
  threadgroup T a[8 * 12], b[64];
  for (uint k = lane; k < 64; k += 32) {
    a[k / 8 * 12 + k % 8] = T(x[k]);
    b[k % 8 * 8 + k / 8] = T(y[k]);
  }
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_matrix<T, 8, 8> ma, mb;
  simdgroup_load(ma, a, 12);
  simdgroup_load(mb, b, 8, ulong2(0, 0), true);
  simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_multiply_accumulate(acc, ma, mb, acc);
  acc.thread_elements()[0] *= 2.0f;
  acc.thread_elements()[1] *= 2.0f;
  simdgroup_store(acc, z + 3, 9);
}
template [[host_name("product_float")]] kernel void product<float>(device const float*, device const float*, device float*, uint);
template [[host_name("product_half")]] kernel void product<half>(device const float*, device const float*, device float*, uint);
template [[host_name("product_bfloat")]] kernel void product<bfloat>(device const float*, device const float*, device float*, uint);
)";
  std::vector<float> a(64), b(64);
  for (size_t i = 0; i < 64; ++i) a[i] = float(i % 7) - 3, b[i] = float(i % 5) - 1;
  for (const char* kernel : {"product_float", "product_half", "product_bfloat"}) {
    Data<float> x(*gpu_, a), y(*gpu_, b), z(*gpu_, std::vector<float>(3 + 72));
    run(*gpu_, text, {kernel, {x.at(0), y.at(1), z.at(2)}});
    const auto got = z.values();
    for (size_t i = 0; i < 8; ++i) {
      for (size_t j = 0; j < 8; ++j) {
        float sum = 1;
        for (size_t k = 0; k < 8; ++k) sum += a[i * 8 + k] * b[k * 8 + j];
        EXPECT_EQ(got[3 + i * 9 + j], 2 * sum) << kernel << " " << i << " " << j;
      }
    }
  }
}

TEST_P(MetalSim, FunctionConstants) {
  const std::string text = R"(
#include <metal_stdlib>
using namespace metal;
namespace weft {
constant bool has_bias [[function_constant(0)]];
constant int steps [[function_constant(1)]];
constant float unused [[function_constant(2)]];
constant bool both = has_bias && steps > 1;
inline float bias_of(float b) { return has_bias ? b : 0.0f; }
kernel void add(device float* y [[buffer(0)]], device const float* bias [[buffer(1), function_constant(has_bias)]], uint i [[thread_position_in_grid]]) {
  float sum = bias_of(1.0f) + (both ? 100.0f : 0.0f);
  if (has_bias) sum += bias[i];
  y[i] = sum + float(steps);
}
kernel void other(device float* y [[buffer(0)]], uint i [[thread_position_in_grid]]) { y[i] = is_function_constant_defined(unused) ? unused : -1.0f; }
}
)";
  const Constant yes{0, Constant::Type::boolean, 1}, no{0, Constant::Type::boolean, 0}, three{1, Constant::Type::i32, 3};
  Data<float> y(*gpu_, std::vector<float>(32)), bias(*gpu_, ramp(32));
  run(*gpu_, text, {"add", {y.at(0), bias.at(1)}, {1, 1, 1}, 32, 0, {yes, three}});
  EXPECT_EQ(y.values()[4], 1.0f + 100.0f + 5.0f + 3.0f);
  run(*gpu_, text, {"add", {y.at(0)}, {1, 1, 1}, 32, 0, {no, three}});
  EXPECT_EQ(y.values()[4], 3.0f);
  EXPECT_NE(error_of([&] { run(*gpu_, text, {"add", {y.at(0)}, {1, 1, 1}, 32, 0, {yes}}); }).find("needs function constant 1 'steps'"),
            std::string::npos);
}

TEST_P(MetalSim, IntegerAtomics) {
  const std::string text = R"(
#include <metal_stdlib>
using namespace metal;
kernel void tally(device atomic_uint* total [[buffer(0)]], device atomic_int* least [[buffer(1)]], uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(total, i, memory_order_relaxed);
  atomic_fetch_min_explicit(least, -int(i), memory_order_relaxed);
  if (i == 5) atomic_store_explicit(&total[1], 7, memory_order_relaxed);
}
)";
  Data<uint32_t> total(*gpu_, std::vector<uint32_t>(2));
  Data<int32_t> least(*gpu_, std::vector<int32_t>(1));
  run(*gpu_, text, {"tally", {total.at(0), least.at(1)}, {40, 1, 1}, 256});
  EXPECT_EQ(total.values(), (std::vector<uint32_t>{10240u * 10239u / 2, 7}));
  EXPECT_EQ(least.values()[0], -10239);
}

TEST_P(MetalSim, VectorsAndBfloat) {
  const std::string text = R"(
#include <metal_stdlib>
using namespace metal;
inline float4 widen(device const bfloat4* p) { return float4(p[0]); }
inline float total(device const float* p) { return p[0] + p[1]; }
inline float total(threadgroup const float* p) { return p[0] + p[1]; }
kernel void vectors(device const float4* x [[buffer(0)]], device float4* y [[buffer(1)]], device bfloat4* z [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  float4 v = x[i];
  v.xy = v.yx;
  v *= 2.0f;
  y[i] = fma(v, float4(1.5f), float4(v.zw, 1, 0)) + precise::sqrt(float4(4));
  z[i] = bfloat4(v);
  y[i].w = as_type<float>(as_type<uint>(y[i].w)) + widen(&z[i]).w + max(v.x, 0.0f) + dot(v, v) * 0.0f + total((device const float*)&x[i]) * 0.0f;
}
)";
  Data<float> x(*gpu_, ramp(128)), y(*gpu_, std::vector<float>(128));
  Data<uint16_t> z(*gpu_, std::vector<uint16_t>(128));
  run(*gpu_, text, {"vectors", {x.at(0), y.at(1), z.at(2)}});
  const auto got = y.values();
  // (1, 2, 3, 4) -> (4, 2, 6, 8)
  EXPECT_EQ(got[0], 4 * 1.5f + 6 + 2);
  EXPECT_EQ(got[1], 2 * 1.5f + 8 + 2);
  EXPECT_EQ(got[2], 6 * 1.5f + 1 + 2);
  EXPECT_EQ(got[3], 8 * 1.5f + 0 + 2 + 8 + 4);
  EXPECT_EQ(z.values()[3], 0x4100);
}

INSTANTIATE_TEST_SUITE_P(Orders, MetalSim,
                         testing::Values(SimMode::forward, SimMode::random, SimMode::flush, SimMode::checked, SimMode::counting),
                         mode_name);

TEST(MetalSimErrors, CompilerMessage) {
  const auto gpu = open_simulator(SimMode::forward);
  const std::string error = error_of([&] {
    gpu->library("#include <metal_stdlib>\nusing namespace metal;\nkernel void f(device float* y [[buffer(0)]]) {\n  y[0] = nothing;\n}\n",
                 "wrong.metal");
  });
  EXPECT_NE(error.find("wrong.metal:4"), std::string::npos) << error;
  EXPECT_NE(error.find("nothing"), std::string::npos) << error;
}

TEST(MetalSimErrors, MoreThreadsThanAKernelStates) {
  const auto gpu = open_simulator(SimMode::forward);
  const auto library = gpu->library(
      "#include <metal_stdlib>\ntemplate <class T>\n[[max_total_threads_per_threadgroup(64)]]\nkernel void f(device T* y [[buffer(0)]]) { "
      "y[0] = T(1); }\n"
      "template [[host_name(\"f_int\")]] kernel void f<int>(device int*);\n"
      "[[max_total_threads_per_threadgroup(128)]] kernel void g(device int* y [[buffer(0)]]) { y[0] = 2; }\n",
      "stated.metal");
  const Data<int> y(*gpu, {0});
  for (const auto& [name, most] : {std::pair{"f_int", 64}, {"g", 128}}) {
    const auto pipeline = library->pipeline(name, {});
    EXPECT_EQ(pipeline->most_threads(), most) << name;
    const auto launch = [&](int threads) {
      gpu->encode({.op = "stated", .pipeline = pipeline.get(), .bindings = {y.at(0)}, .threads = threads});
      gpu->wait();
    };
    launch(most);
    EXPECT_NE(error_of([&] { launch(2 * most); }).find(std::to_string(most)), std::string::npos) << name;
  }
  EXPECT_NE(error_of([&] {
              gpu->library(
                  "constant constexpr int n = 4;\n[[max_total_threads_per_threadgroup(n)]] kernel void f(device int* y [[buffer(0)]]) { "
                  "y[0] = 1; }\n",
                  "n.metal");
            }).find("is 'n', expected a number"),
            std::string::npos);
}

TEST(MetalSimErrors, NoSuchKernel) {
  const auto gpu = open_simulator(SimMode::forward);
  const auto library = gpu->library("#include <metal_stdlib>\nkernel void f(device float* y [[buffer(0)]]) { y[0] = 1; }\n", "one.metal");
  EXPECT_NE(error_of([&] { library->pipeline("g", {}); }).find("no kernel named 'g'"), std::string::npos);
}

}  // namespace
}  // namespace weft::metal
