// Building blocks of the rewriter's output: arguments that convert to the type of a kernel's parameter, and the storage of threadgroup
// variables.
#pragma once

#include <weft_sim/simd.h>

#define is_function_constant_defined(name) (name##_is_defined)

namespace weft_sim {

template <class T>
WEFT_SIM_INLINE T& threadgroup_variable(int index, const char* name, Site site) {
  return *static_cast<T*>(runtime->threadgroup_variable(index, name, sizeof(T), alignof(T) < 16 ? 16 : alignof(T), site));
}

template <class T>
constexpr int constant_type() {
  return metal::is_same_v<T, bool> ? 0 : metal::is_same_v<T, int> ? 1 : metal::is_same_v<T, uint> ? 2 : metal::is_same_v<T, float> ? 3 : -1;
}

struct BufferPointer {
  void* pointer;
  template <class T>
  operator T*() const {
    return static_cast<T*>(pointer);
  }
};
struct BufferReference {
  void* pointer;
  unsigned long bytes;
  const char* too_small;  // message in that case
  bool optional;          // may be unbound if the kernel does not access it
  Site site;
  template <class T>
  operator T&() const {
    if (bytes < sizeof(T) && !(optional && bytes == 0)) runtime->fail(too_small, site);
    return *static_cast<T*>(pointer);
  }
};
struct Position {
  const unsigned* xyz;
  template <class T, class = std::enable_if_t<std::is_integral<T>::value>>
  operator T() const {
    return T(xyz[0]);
  }
  template <class T, int N>
  operator metal::vec<T, N>() const {
    metal::vec<T, N> result{};
    for (int i = 0; i < N; ++i) result.all[i] = T(xyz[i]);
    return result;
  }
};

}  // namespace weft_sim
