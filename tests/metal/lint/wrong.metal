// clang-format off: lint_finds.py compares the marked lines.
// Every line marked `wrong:` must be reported by lint.py with that message, and no other line.
#include <metal_stdlib>
using namespace metal;

constant bool has_extra [[function_constant(0)]];

struct Params {
  long count;
  float scale;
  float twice() const { return 2.0f * scale; }
};
struct Pair {
  float a, b;
};

inline float through_nothing(const float* p) { return *p; }  // wrong: without an address space
inline float through_thread(thread const float* p) { return *p; }
inline float through_device(device const float& x) { return x; }
inline float of_pair(Pair p) { return p.a + p.b; }

[[max_total_threads_per_threadgroup(64)]] kernel void mixed(device const float* x [[buffer(0)]], device bfloat* y [[buffer(1)]], constant Params& p [[buffer(2)]],
                  device const Pair* pairs [[buffer(3)]], device float* extra [[buffer(4)]], uint t [[thread_position_in_grid]]) {
  threadgroup float tile[32];
  threadgroup float* first = tile;
  tile[t] = through_device(x[t]) + of_pair(pairs[t]);  // structs are copied from any space
  threadgroup_barrier(mem_flags::mem_threadgroup);
  double wide = 1;                          // wrong: no double
  y[t] = x[t];                              // wrong: implicit conversion loses
  bfloat one = 1.0f;                        // wrong: no viable conversion
  y[t + 1] = 0.5f;                          // wrong: no viable overloaded '='
  bfloat right = bfloat(1.0f);
  float a = through_thread(x);              // wrong: no matching function
  float b = through_device(tile[0]);        // wrong: no matching function
  float c = p.twice();                      // wrong: cannot initialize object parameter
  device float* d = tile;                   // wrong: cannot initialize a variable
  p.scale = 1.0f;                           // wrong: cannot assign
  auto add = [&](float z) { return z; };    // wrong: no lambdas
  if (has_extra) extra[t] = first[0] + float4(a, b, c, *d).x;
}

kernel void unsaid(device float* x [[buffer(0)]]) { x[0] = 1; }  // wrong: kernel unsaid does not state max_total_threads_per_threadgroup
[[max_total_threads_per_threadgroup(64)]] kernel void softmax_rows(device float* x [[buffer(0)]]) { x[0] = 1; }  // wrong: kernel softmax_rows states
[[max_total_threads_per_threadgroup(64)]] kernel void places(device uint* x [[buffer(0)]], uint size [[threads_per_threadgroup]], uint index [[thread_index_in_threadgroup]],
                   uint2 group [[threadgroup_position_in_grid]]) {  // wrong: places in the grid of 1 and 2 axes
  x[group.x * size + index] = group.y;
}

inline uint after(uint thread) { return 1; }  // wrong: thread is an address space, not a name

constexpr int kOutside = 4;                       // wrong: a variable outside of functions that is not constant
constant constexpr int kInside = 4;
constant bool again [[function_constant(0)]];     // wrong: function constants has_extra and again both have index 0
struct Sizes {
  static constexpr int most = 8;                  // wrong: a variable outside of functions that is not constant
  static constexpr int twice(int n) { return 2 * n; }
};
inline float shared_by_nobody(uint t) {
  threadgroup float own[4];                       // wrong: a threadgroup variable that is not
  static int turns;                               // wrong: a static variable inside of a function
  return own[t];
}
[[max_total_threads_per_threadgroup(64)]] kernel void twice(device float* x [[buffer(0)]], device float* y [[buffer(0)]], device float* z [[buffer(31)]]) {  // wrong: two parameters at buffer(0)
  threadgroup float zero = 0.0f;                  // wrong: a threadgroup variable with a value
  const int narrow[1] = {z[0]};                   // wrong: cannot be narrowed
  if constexpr (kInside > 2) y[0] = x[0] + zero;  // wrong: constexpr if is a C++17 extension
  const long long wide = 1;                       // wrong: Metal has no long long
  try { y[1] = narrow[0]; } catch (...) {}        // wrong: Metal has no try
}
namespace inner {
[[max_total_threads_per_threadgroup(64)]] kernel void lost(device float* x [[buffer(0)]]) { x[0] = 1; }  // wrong: kernel lost in a namespace has no host_name
template <class T>
[[max_total_threads_per_threadgroup(64)]] kernel void found(device T* x [[buffer(0)]]) { x[0] = T(1.0f); }
template [[host_name("found_f32")]] kernel decltype(found<float>) found<float>;
}  // namespace inner
