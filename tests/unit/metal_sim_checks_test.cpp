// Deliberately wrong kernels: the checked simulator reports the misuse, the file and the line.
#include <algorithm>

#include "tests/unit/metal_sim_kernel.h"

namespace weft::metal {
namespace {

// "wrong.metal:7" for the line with the mark.
std::string place(const std::string& text, const std::string& mark) {
  const size_t at = text.find("// " + mark + "\n");
  if (at == std::string::npos) return "";
  return "wrong.metal:" + std::to_string(1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(at), '\n'));
}

const TestKernel kWrong[] = {
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
     "reads lane 40, expected 0 to 31"},
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
     "reached by another call"},
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
     "it was never written"},
    {"AtomicOnUninitialisedThreadgroupMemory", R"(
  threadgroup atomic_uint count;
  atomic_fetch_add_explicit(&count, 1u, memory_order_relaxed);  // HERE
  y[i] = 0;)",
     "it was never written"},
    {"ExchangeOfUninitialisedThreadgroupMemory", R"(
  threadgroup atomic_uint last;
  y[i] = float(atomic_exchange_explicit(&last, i, memory_order_relaxed));  // HERE)",
     "it was never written"},
    {"MoreThan32KiB", R"(
  threadgroup float s[8192];
  threadgroup float more[4];  // HERE
  s[i] = more[0];
  y[i] = s[i];)",
     "the limit is 32768"},
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

class MetalSimWrong : public testing::TestWithParam<TestKernel> {};

TEST_P(MetalSimWrong, IsCaught) {
  const std::string text = source_of(GetParam()), error = error_of(SimMode::checked, GetParam());
  EXPECT_NE(error.find(GetParam().message), std::string::npos) << error;
  EXPECT_NE(error.find("'wrong'") + error.find("kernel wrong") + 1, std::string::npos) << error;
  for (const char* mark : {"HERE", "HERE2"})
    EXPECT_NE(error.find(place(text, mark)), std::string::npos) << mark << " " << place(text, mark) << " in " << error;
}

INSTANTIATE_TEST_SUITE_P(Kernels, MetalSimWrong, testing::ValuesIn(kWrong), [](const auto& info) { return std::string(info.param.name); });

// Errors that need no instrumentation are found in every mode.
TEST(MetalSimWrong, DivergenceAndMemoryLimitInEveryMode) {
  for (SimMode mode : {SimMode::forward, SimMode::random, SimMode::flush, SimMode::counting}) {
    for (const TestKernel& wrong : kWrong) {
      const std::string name = wrong.name;
      if (name == "DivergentBarrier" || name == "BarrierAfterSomeReturned" || name == "MoreThan32KiB" || name == "MatrixNeedsAllLanes") {
        EXPECT_NE(error_of(mode, wrong).find(wrong.message), std::string::npos) << name << ": " << error_of(mode, wrong);
      }
    }
  }
}

}  // namespace
}  // namespace weft::metal
