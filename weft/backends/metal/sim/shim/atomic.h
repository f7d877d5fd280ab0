// <metal_atomic>: relaxed only. Every operation first calls the simulator, which ends a kernel that spins.
#pragma once

#include <weft_sim/simd.h>

namespace metal {

enum memory_order { memory_order_relaxed = 0, memory_order_seq_cst = 5 };
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };

WEFT_SIM_INLINE void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

template <class T>
struct atomic {
  T value;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<bool> atomic_bool;
typedef atomic<ulong> atomic_ulong;
typedef atomic<float> atomic_float;

// The type of the second argument comes from the first one only: atomic_store_explicit(p, 0, ...) stores a uint 0.
template <class T>
struct Same {
  typedef T Type;
};
template <class T>
using SameType = typename Same<T>::Type;

template <class T>
WEFT_SIM_INLINE T atomic_load_explicit(const volatile atomic<T>* object, memory_order) {
  weft_sim::runtime->spin();
  T value;
  __atomic_load(const_cast<T*>(&object->value), &value, __ATOMIC_RELAXED);
  return value;
}
template <class T>
WEFT_SIM_INLINE void atomic_store_explicit(volatile atomic<T>* object, SameType<T> value, memory_order) {
  weft_sim::runtime->spin();
  __atomic_store(const_cast<T*>(&object->value), &value, __ATOMIC_RELAXED);
}
template <class T>
WEFT_SIM_INLINE T atomic_exchange_explicit(volatile atomic<T>* object, SameType<T> value, memory_order) {
  weft_sim::runtime->spin();
  T old;
  __atomic_exchange(const_cast<T*>(&object->value), &value, &old, __ATOMIC_RELAXED);
  return old;
}
template <class T>
WEFT_SIM_INLINE bool atomic_compare_exchange_weak_explicit(volatile atomic<T>* object, T* expected, SameType<T> desired, memory_order,
                                                           memory_order) {
  weft_sim::runtime->spin();
  return __atomic_compare_exchange(const_cast<T*>(&object->value), expected, &desired, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

#define WEFT_SIM_ATOMIC_UPDATE(name, update)                                                                      \
  template <class T>                                                                                              \
  WEFT_SIM_INLINE T atomic_fetch_##name##_explicit(volatile atomic<T>* object, SameType<T> value, memory_order) { \
    weft_sim::runtime->spin();                                                                                    \
    T* at = const_cast<T*>(&object->value);                                                                       \
    T old, changed;                                                                                               \
    __atomic_load(at, &old, __ATOMIC_RELAXED);                                                                    \
    do {                                                                                                          \
      changed = T(update);                                                                                        \
    } while (!__atomic_compare_exchange(at, &old, &changed, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));           \
    return old;                                                                                                   \
  }
WEFT_SIM_ATOMIC_UPDATE(add, old + value)
WEFT_SIM_ATOMIC_UPDATE(sub, old - value)
WEFT_SIM_ATOMIC_UPDATE(max, old < value ? value : old)
WEFT_SIM_ATOMIC_UPDATE(min, value < old ? value : old)
WEFT_SIM_ATOMIC_UPDATE(and, old& value)
WEFT_SIM_ATOMIC_UPDATE(or, old | value)
WEFT_SIM_ATOMIC_UPDATE(xor, old ^ value)

}  // namespace metal
