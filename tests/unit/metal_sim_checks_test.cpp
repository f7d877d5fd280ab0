// Deliberately wrong kernels: the checked simulator must name the misuse, the file and the line.
#include "tests/unit/metal_sim_cases.h"

#include <algorithm>

namespace weft::metal {
namespace {

struct Wrong {
  const char* name;
  const char* body;  // of a kernel with x, y, u, i (thread), g (group), n (threads); a line marked HERE (or HERE2) must be named
  const char* says;
  int threads = 64;
  int64_t groups = 1;
};
void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

std::string kernel_of(const Wrong& wrong) {
  return std::string(R"(#include <metal_stdlib>
using namespace metal;
kernel void wrong(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], device atomic_uint* u [[buffer(2)]],
                  device const float* absent [[buffer(3)]], uint i [[thread_index_in_threadgroup]],
                  uint g [[threadgroup_position_in_grid]], uint n [[threads_per_threadgroup]]) {
)") + wrong.body +
         "\n}\n";
}

// "wrong.metal:7" for the line that holds the mark.
std::string place(const std::string& text, const std::string& mark) {
  const size_t at = text.find("// " + mark + "\n");
  if (at == std::string::npos) return "";
  return "wrong.metal:" + std::to_string(1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n'));
}

std::string outcome(SimMode mode, const Wrong& wrong) {
  const auto gpu = open_simulator(mode);
  Data<float> x(*gpu, std::vector<float>(256, 1.0f)), y(*gpu, std::vector<float>(256));
  Data<uint32_t> u(*gpu, std::vector<uint32_t>(4));
  return error_of([&] {
    run(*gpu, kernel_of(wrong), {"wrong", {x.at(0, 0, 128), y.at(1, 64, 128), u.at(2)}, {wrong.groups, 1, 1}, wrong.threads},
        "wrong.metal");
  });
}

const Wrong kWrong[] = {
    {"DivergentBarrier", R"(
  if (i < 16) {
    threadgroup_barrier(mem_flags::mem_threadgroup);  // HERE
  } else {
    threadgroup_barrier(mem_flags::mem_threadgroup);  // HERE2
  }
  y[i] = 0;)",
     "divergent threadgroup_barrier"},
    {"BarrierAfterSomeReturned", R"(
  if (i >= 40) return;
  threadgroup_barrier(mem_flags::mem_threadgroup);  // HERE
  y[i] = 0;)",
     "40 of 64 threads"},
    {"MissingBarrier", R"(
  threadgroup float s[64];
  s[i] = x[i];  // HERE
  y[i] = s[63 - i];  // HERE2)",
     "race on 's'"},
    {"MissingBarrierAfterARead", R"(
  threadgroup float s[64];
  s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float first = s[0];  // HERE
  s[i] = first;  // HERE2
  y[i] = first;)",
     "race on 's'"},
    {"FlagsOfOtherMemory", R"(
  threadgroup float s[64];
  s[i] = x[i];  // HERE
  threadgroup_barrier(mem_flags::mem_device);
  y[i] = s[63 - i];  // HERE2)",
     "no barrier for threadgroup memory"},
    {"DeviceMemoryNeedsItsOwnFlag", R"(
  y[i] = x[i];  // HERE
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[64 + i] = y[63 - i];  // HERE2)",
     "no barrier for device memory"},
    {"SimdgroupBarrierIsNotEnough", R"(
  threadgroup float s[64];
  s[i] = x[i];  // HERE
  simdgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = s[63 - i];  // HERE2)",
     "race on 's'"},
    {"LanesRaceToo", R"(
  threadgroup float s[64];
  s[i] = x[i];  // HERE
  y[i] = simd_sum(s[i ^ 1]);  // HERE2)",
     "race on 's'"},
    {"GroupsAreNotOrdered", R"(
  y[i] = float(g);  // HERE)",
     "nothing orders two groups", 64, 2},
    {"GroupsReadWhatOthersWrite", R"(
  if (g == 0) y[i] = x[i];  // HERE
  threadgroup_barrier(mem_flags::mem_device);
  if (g == 1) y[64 + i] = y[i];  // HERE2)",
     "nothing orders two groups", 64, 2},
    {"GroupsWriteWhatOthersRead", R"(
  if (g == 0) y[64 + i] = y[i];  // HERE
  threadgroup_barrier(mem_flags::mem_device);
  if (g == 1) y[i] = x[i];  // HERE2)",
     "nothing orders two groups", 64, 2},
    {"LanesRaceInDeviceMemory", R"(
  y[i] = x[i];  // HERE
  y[64 + i] = y[i ^ 1];  // HERE2)",
     "race on 'y'"},
    {"LanesWriteOnePlace", R"(
  threadgroup float s;
  s = x[i];  // HERE
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = s;)",
     "race on 's'"},
    {"ShuffleFromAnInactiveLane", R"(
  float v = x[i];
  if (i < 16) v = simd_shuffle(v, 20);  // HERE
  y[i] = v;)",
     "simd_shuffle: lane 0 reads lane 20, which is not active"},
    {"ShuffleOutOfABranch", R"(
  float v = x[i];
  if (i % 32 < 24) v += simd_shuffle_xor(v, 16);  // HERE
  y[i] = v;)",
     "lane 8 reads lane 24, which is not active"},
    {"ShuffleFromNoLane", R"(
  y[i] = simd_shuffle(x[i], 40);  // HERE)",
     "reads lane 40, and there are 32"},
    {"BarrierInALoopOfSomeThreads", R"(
  for (uint k = 0; k < i; ++k) threadgroup_barrier(mem_flags::mem_none);  // HERE
  y[i] = 0;)",
     "63 of 64 threads"},
    {"BarrierInALoopOfAnotherLength", R"(
  for (uint k = 0; k < 1 + i % 2; ++k) threadgroup_barrier(mem_flags::mem_none);  // HERE
  threadgroup_barrier(mem_flags::mem_none);  // HERE2
  y[i] = 0;)",
     "divergent threadgroup_barrier"},
    {"OneBarrierByTwoCalls", R"(
  struct Helper {
    static float wait(float z) {
      threadgroup_barrier(mem_flags::mem_none);  // HERE
      return z * z;
    }
  };
  if (i < 32) y[i] = Helper::wait(x[i]);
  else y[64 + i / 2] = Helper::wait(y[i]) + 1;)",
     "where it came by another call"},
    {"AtomicThenPlainRead", R"(
  atomic_fetch_add_explicit(u, 1u, memory_order_relaxed);  // HERE
  y[i] = float(((device uint*)u)[0]);  // HERE2)",
     "race on 'u'"},
    {"PlainReadThenAtomic", R"(
  if (i == 0) y[0] = float(((device uint*)u)[0]);  // HERE
  atomic_fetch_add_explicit(u, 1u, memory_order_relaxed);  // HERE2)",
     "race on 'u'"},
    {"AtomicOfGroupsAndPlain", R"(
  if (g == 1 && i == 0) ((device uint*)u)[0] = 7;  // HERE
  if (g == 0) atomic_fetch_max_explicit(u, i, memory_order_relaxed);  // HERE2)",
     "race on 'u'", 64, 2},
    {"AtomicAndPlain", R"(
  if (i == 0) ((device uint*)u)[0] = 7;  // HERE
  atomic_fetch_add_explicit(u, 1u, memory_order_relaxed);  // HERE2)",
     "race on 'u'"},
    {"WritesPastTheBinding", R"(
  y[i + 65] = 0;  // HERE)",
     "at byte 512 of 'y', which has 512 bytes"},
    {"ReadsBeforeTheBinding", R"(
  y[i] = y[int(i) - 1];  // HERE)",
     "at byte -4 of 'y'"},
    {"ReadsPastTheBindingIntoItsBuffer", R"(
  y[i] = x[i + 100];  // HERE)",
     "at byte 512 of 'x'"},
    {"ThreadgroupArrayOverrun", R"(
  threadgroup float s[64];
  threadgroup float* p = s;
  p[i + 1] = x[i];  // HERE
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = p[i + 1];)",
     "at byte 256 of 's', which has 256 bytes"},
    {"ThreadgroupPointerIntoAnotherArray", R"(
  threadgroup float s[64], t[64];
  t[i] = s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threadgroup float* p = s;
  y[i] = p[i + 90];  // HERE)",
     "at byte 360 of 's', which has 256 bytes"},
    {"ThreadgroupPointerBeforeItsArray", R"(
  threadgroup float s[64], t[64];
  t[i] = s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threadgroup float* p = t;
  y[i] = p[int(i) - 70];  // HERE)",
     "at byte -280 of 't'"},
    {"MatrixLoadPastTheArray", R"(
  threadgroup float s[60];
  if (i < 60) s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  simdgroup_float8x8 a;
  simdgroup_load(a, s, 8);  // HERE
  y[i] = a.thread_elements()[0];)",
     "of 's', which has 240 bytes", 32},
    {"IndexOutsideAPrivateArray", R"(
  float own[4] = {1, 2, 3, 4};
  y[i] = own[i];  // HERE)",
     "index outside the array"},
    {"UninitialisedThreadgroupMemory", R"(
  threadgroup float s[64];
  if (i < 32) s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  y[i] = s[i];  // HERE)",
     "nobody has written it"},
    {"AtomicOnUninitialisedThreadgroupMemory", R"(
  threadgroup atomic_uint count;
  atomic_fetch_add_explicit(&count, 1u, memory_order_relaxed);  // HERE
  y[i] = 0;)",
     "nobody has written it"},
    {"ExchangeOfUninitialisedThreadgroupMemory", R"(
  threadgroup atomic_uint last;
  y[i] = float(atomic_exchange_explicit(&last, i, memory_order_relaxed));  // HERE)",
     "nobody has written it"},
    {"MoreThan32KiB", R"(
  threadgroup float s[8192];
  threadgroup float more[4];  // HERE
  s[i] = more[0];
  y[i] = s[i];)",
     "over the 32768 there are"},
    {"UnboundBuffer", R"(
  y[i] = absent[i];  // HERE)",
     "of 'absent', which is not bound"},
    {"Misaligned", R"(
  device const float4* wide = (device const float4*)(x + 1);
  y[i] = wide[0].x;  // HERE)",
     "misaligned"},
    {"MisalignedThreadgroupVector", R"(
  threadgroup float s[64];
  s[i] = x[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threadgroup float4* wide = (threadgroup float4*)(s + 2);
  y[i] = wide[i / 16].y;  // HERE)",
     "misaligned"},
    {"MisalignedWord", R"(
  device const ushort* halves = (device const ushort*)x + 1;
  y[i] = float(((device const uint*)halves)[i]);  // HERE)",
     "misaligned"},
    {"MisalignedBfloats", R"(
  device const bfloat4* narrow = (device const bfloat4*)((device const ushort*)x + 2);
  y[i] = float(narrow[0].x);  // HERE)",
     "misaligned"},
    {"ShiftByTooMuch", R"(
  y[i] = float(1u << n);  // HERE)",
     "shift by no fewer bits"},
    {"ConversionThatDoesNotFit", R"(
  y[i] = float(int(x[i] * 1e20f));  // HERE)",
     "cannot hold the value"},
    {"NoValueReturned", R"(
  struct Helper {
    static float value(uint k) {  // HERE
      if (k < 63) return 1;
    }
  };
  y[i] = Helper::value(i);)",
     "ends without the value"},
    {"DivisionByZero", R"(
  y[i] = float(i / (n - 64));  // HERE)",
     "division by zero"},
    {"MatrixNeedsAllLanes", R"(
  simdgroup_float8x8 a = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_multiply(a, a, a);  // HERE
  y[i] = a.thread_elements()[0];)",
     "all 32 lanes", 16},
    {"MatrixLoadBySomeLanes", R"(
  simdgroup_float8x8 a = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  if (i % 32 < 16) simdgroup_load(a, x, 8);  // HERE
  y[i] = a.thread_elements()[0];)",
     "loaded and stored by all 32 lanes"},
    {"MatrixStoreOfTwoSimdgroups", R"(
  simdgroup_float8x8 a = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_store(a, y, 8);  // HERE)",
     "race on 'y'"},
    {"MatrixLoadOfAStoreWithoutBarrier", R"(
  threadgroup float s[64];
  simdgroup_float8x8 a = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_store(a, s, 8);  // HERE
  simdgroup_load(a, s, 8, ulong2(0), true);  // HERE2
  y[i] = a.thread_elements()[0];)",
     "race on 's'", 32},
    {"Spin", R"(
  while (atomic_load_explicit(u, memory_order_relaxed) == 0) {}
  y[i] = 0;)",
     "spins on atomics", 32},
};

class MetalSimWrong : public testing::TestWithParam<Wrong> {};

TEST_P(MetalSimWrong, IsCaught) {
  const std::string text = kernel_of(GetParam()), error = outcome(SimMode::checked, GetParam());
  EXPECT_NE(error.find(GetParam().says), std::string::npos) << error;
  EXPECT_NE(error.find("'wrong'") + error.find("kernel wrong") + 1, std::string::npos) << error;
  for (const char* mark : {"HERE", "HERE2"})
    EXPECT_NE(error.find(place(text, mark)), std::string::npos) << mark << " " << place(text, mark) << " in " << error;
}

INSTANTIATE_TEST_SUITE_P(Kernels, MetalSimWrong, testing::ValuesIn(kWrong), [](const auto& info) { return std::string(info.param.name); });

// The same shapes done right.
const Wrong kRight[] = {
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

class MetalSimRight : public testing::TestWithParam<Wrong> {};
TEST_P(MetalSimRight, Passes) { EXPECT_EQ(outcome(SimMode::checked, GetParam()), ""); }
INSTANTIATE_TEST_SUITE_P(Kernels, MetalSimRight, testing::ValuesIn(kRight), [](const auto& info) { return std::string(info.param.name); });

// What can be found without instrumenting is found in every mode.
TEST(MetalSimWrong, DivergenceAndMemoryLimitInEveryMode) {
  for (SimMode mode : {SimMode::forward, SimMode::random, SimMode::flush, SimMode::counting}) {
    for (const Wrong& wrong : kWrong) {
      const std::string name = wrong.name;
      if (name == "DivergentBarrier" || name == "BarrierAfterSomeReturned" || name == "MoreThan32KiB" || name == "MatrixNeedsAllLanes") {
        EXPECT_NE(outcome(mode, wrong).find(wrong.says), std::string::npos) << name << ": " << outcome(mode, wrong);
      }
    }
  }
}

// What is wrong with a text as a whole, before anything runs.
struct WrongText {
  const char* name;
  const char* text;  // a kernel named "wrong", from line 2 on
  const char* says;
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
  EXPECT_NE(error.find(GetParam().says), std::string::npos) << error;
}
INSTANTIATE_TEST_SUITE_P(Texts, MetalSimWrongText, testing::ValuesIn(kWrongTexts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MetalSimWatchdog, AnEndlessLoopLosesTheDevice) {
  setenv("WEFT_METAL_SIM_WATCHDOG", "1", 1);
  const Wrong endless{"Endless", "  volatile uint turns = 1;\n  while (turns != 0) turns = turns | 1;\n  y[i] = 0;", ""};
  const std::string error = outcome(SimMode::forward, endless);
  unsetenv("WEFT_METAL_SIM_WATCHDOG");
  EXPECT_NE(error.find("does not end"), std::string::npos) << error;
}

TEST(MetalSimCounters, EveryByte) {
  const auto gpu = open_simulator(SimMode::counting);
  const Wrong counted{"Counted", R"(
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
  run(*gpu, kernel_of(counted), {"wrong", {x.at(0), y.at(1), u.at(2)}, {1, 1, 1}, 64}, "wrong.metal");
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
