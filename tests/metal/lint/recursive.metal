// lint.py must find that `power` reaches itself.
#include <metal_stdlib>

inline float power(float x, int n);
inline float odd_power(float x, int n) { return x * power(x, n - 1); }
inline float power(float x, int n) { return n == 0 ? 1.0f : n % 2 ? odd_power(x, n) : power(x * x, n / 2); }

[[max_total_threads_per_threadgroup(64)]] kernel void raise(device float* x [[buffer(0)]], uint t [[thread_position_in_grid]]) {
  x[t] = power(x[t], 5);
}
