// A kernel of a few lines for the simulator's tests, and its outcome.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "tests/unit/metal_sim_cases.h"

namespace weft::metal {

struct TestKernel {
  const char* name;
  const char* body;     // uses x, y, u, i (thread), g (group), n (threads); the error must name the lines marked HERE and HERE2
  const char* message;  // part of the expected error
  int threads = 64;
  int64_t groups = 1;
};
inline void PrintTo(const TestKernel& kernel, std::ostream* out) { *out << kernel.name; }

inline std::string source_of(const TestKernel& kernel) {
  return std::string(R"(#include <metal_stdlib>
using namespace metal;
kernel void wrong(device const float* x [[buffer(0)]], device float* y [[buffer(1)]], device atomic_uint* u [[buffer(2)]],
                  device const float* absent [[buffer(3)]], uint i [[thread_index_in_threadgroup]],
                  uint g [[threadgroup_position_in_grid]], uint n [[threads_per_threadgroup]]) {
)") + kernel.body +
         "\n}\n";
}

// The error of a run, or "". 128 elements of x and of y are bound.
inline std::string error_of(SimMode mode, const TestKernel& kernel) {
  const auto gpu = open_simulator(mode);
  Data<float> x(*gpu, std::vector<float>(256, 1.0f)), y(*gpu, std::vector<float>(256));
  Data<uint32_t> u(*gpu, std::vector<uint32_t>(4));
  return error_of([&] {
    run(*gpu, source_of(kernel), {"wrong", {x.at(0, 0, 128), y.at(1, 64, 128), u.at(2)}, {kernel.groups, 1, 1}, kernel.threads},
        "wrong.metal");
  });
}

}  // namespace weft::metal
