// The simulator on correct kernels, on sources with errors, on endless loops; and its counters.
#include "tests/unit/metal_sim_kernel.h"

namespace weft::metal {
namespace {

// Correct versions of the wrong kernels in metal_sim_checks_test.cpp.
const TestKernel kRight[] = {
    {"Barrier", R"(
  threadgroup float s[64];
  s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = s[63 - i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  s[i] = 0;)",
     ""},
    {"SimdgroupBarrier", R"(
  threadgroup float s[64];
  s[i] = x[i];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  float other = s[i ^ 5];
  simdgroup_barrier(mem_flags::mem_threadgroup);
  s[i] = other;
  y[i] = s[i];)",
     ""},
    {"DeviceBarrier", R"(
  y[i] = x[i];
  threadgroup_barrier(mem_flags::mem_device);
  y[64 + i] = y[63 - i];)",
     ""},
    {"Bytes", R"(
  device uchar* bytes = (device uchar*)y;
  bytes[i] = uchar(i);
  device bfloat* halves = (device bfloat*)(y + 64);
  halves[i] = bfloat(float(i));)",
     ""},
    {"Groups", R"(
  y[g * n + i] = x[g * n + i];
  atomic_fetch_add_explicit(u, 1u, memory_order_relaxed);)",
     "", 32, 4},
    {"DivergentSimdgroups", R"(
  float sum = x[i];
  if (i < 32) sum = simd_sum(sum);
  if (i < 7) sum += simd_max(sum);
  threadgroup_barrier(mem_flags::mem_none);
  y[i] = sum;)",
     ""},
    {"MatricesThroughMemory", R"(
  threadgroup float s[2][64];
  simdgroup_float8x8 a = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_store(a, s[i / 32], 8);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_load(a, s[i / 32], 8, ulong2(0), true);
  if (i < 32) simdgroup_store(a, y, 8);)",
     ""},
    {"AtomicsThenPlain", R"(
  threadgroup atomic_uint count;
  if (i == 0) atomic_store_explicit(&count, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&count, 1u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = float(*(threadgroup uint*)&count);)",
     ""},
    {"BarrierInALoopOfAll", R"(
  struct Helper {
    static void wait() { threadgroup_barrier(mem_flags::mem_device); }
  };
  for (uint k = 0; k < 3; ++k) {
    y[(i + k) % n] = x[i];
    Helper::wait();
  }
  if (i == 0) y[0] = 0;
  Helper::wait();
  y[i] += 1;)",
     ""},
};

class MetalSimRight : public testing::TestWithParam<TestKernel> {};
TEST_P(MetalSimRight, Passes) { EXPECT_EQ(error_of(SimMode::checked, GetParam()), ""); }
INSTANTIATE_TEST_SUITE_P(Kernels, MetalSimRight, testing::ValuesIn(kRight), [](const auto& info) { return std::string(info.param.name); });

// Errors of a source as a whole, found before anything runs.
struct WrongText {
  const char* name;
  const char* text;  // a kernel named "wrong", from line 2 on
  const char* message;
};
void PrintTo(const WrongText& wrong, std::ostream* out) { *out << wrong.name; }
const WrongText kWrongTexts[] = {
    {"TwoConstantsOfOneIndex",
     "constant bool a [[function_constant(0)]];\nconstant bool b [[function_constant(0)]];\nkernel void wrong(device float* y "
     "[[buffer(0)]]) { y[0] = a + b; }\n",
     "wrong.metal:3: function constants 'a' and 'b' both have index 0"},
    {"ConstantOfAnotherType", "constant int a [[function_constant(0)]];\nkernel void wrong(device float* y [[buffer(0)]]) { y[0] = a; }\n",
     "function constant 0 'a' and its value have different types"},
    {"ConstantWithoutAValue", "constant bool a [[function_constant(1)]];\nkernel void wrong(device float* y [[buffer(0)]]) { y[0] = a; }\n",
     "needs function constant 1 'a'"},
    {"TwoBuffersOfOneIndex",
     "kernel void wrong(device float* y [[buffer(0)]],\n                  device float* z [[buffer(0)]]) { y[0] = z[0]; }\n",
     "wrong.metal:3: parameters 'y' and 'z' of kernel 'wrong' both have index 0"},
    {"ReferenceWithoutABuffer",
     "kernel void wrong(device float* y [[buffer(0)]],\n                  constant float& scale [[buffer(1)]]) { y[0] = scale; }\n",
     "wrong.metal:3: parameter 'scale' has no buffer bound"},
    {"ReferenceToATypeLargerThanItsBuffer",
     "struct Large { float a[99]; };\nkernel void wrong(device float* y [[buffer(0)]],\n                  constant Large& large "
     "[[buffer(2)]]) { y[0] = large.a[1]; }\n",
     "wrong.metal:4: parameter 'large' has no buffer bound, or one smaller than its type"},
    {"ThreadgroupVariableWithAValue", "kernel void wrong(device float* y [[buffer(0)]]) {\n  threadgroup float s = 0;\n  y[0] = s;\n}\n",
     "wrong.metal:3"},
};

class MetalSimWrongText : public testing::TestWithParam<WrongText> {};
TEST_P(MetalSimWrongText, IsCaught) {
  const auto gpu = open_simulator(SimMode::checked);
  Data<float> y(*gpu, std::vector<float>(4));
  const std::string error = error_of([&] {
    run(*gpu, std::string("#include <metal_stdlib>\n") + GetParam().text,
        {"wrong", {y.at(0), copied(2, 1.0f)}, {1, 1, 1}, 1, 0, {{0, Constant::Type::boolean, 1}}}, "wrong.metal");
  });
  EXPECT_NE(error.find(GetParam().message), std::string::npos) << error;
}
INSTANTIATE_TEST_SUITE_P(Texts, MetalSimWrongText, testing::ValuesIn(kWrongTexts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MetalSimWatchdog, EndlessLoopLosesTheDevice) {
  setenv("WEFT_METAL_SIM_WATCHDOG", "1", 1);
  const TestKernel endless{"Endless", "  volatile uint turns = 1;\n  while (turns != 0) turns = turns | 1;\n  y[i] = 0;", ""};
  const std::string error = error_of(SimMode::forward, endless);
  unsetenv("WEFT_METAL_SIM_WATCHDOG");
  EXPECT_NE(error.find("does not end"), std::string::npos) << error;
}

TEST(MetalSimCounters, CountsEveryByte) {
  const auto gpu = open_simulator(SimMode::counting);
  const TestKernel counted{"Counted", R"(
  threadgroup float s[64];
  s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = s[63 - i];
  simdgroup_float8x8 a = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_multiply_accumulate(a, a, a, a);
  if (i == 0) y[64] = a.thread_elements()[0];)",
                           ""};
  Data<float> x(*gpu, std::vector<float>(64)), y(*gpu, std::vector<float>(65));
  Data<uint32_t> u(*gpu, std::vector<uint32_t>(4));
  gpu->reset_counters();
  run(*gpu, source_of(counted), {"wrong", {x.at(0), y.at(1), u.at(2)}, {1, 1, 1}, 64}, "wrong.metal");
  const Counters c = gpu->counters();
  EXPECT_TRUE(c.counted);
  EXPECT_EQ(c.dispatches, 1);
  EXPECT_EQ(c.threads, 64);
  EXPECT_EQ(c.barriers, 1);
  EXPECT_EQ(c.device_read, 256);
  EXPECT_EQ(c.device_written, 260);
  EXPECT_EQ(c.threadgroup_bytes, 512);
  EXPECT_EQ(c.matrix_multiply_adds, 2 * 512);
}

}  // namespace
}  // namespace weft::metal
