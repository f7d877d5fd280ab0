// In an instrumented build, clang's ThreadSanitizer pass calls a function before every memory access, and UndefinedBehaviorSanitizer one
// for every misuse. These functions are defined here and call the simulator. They are hidden, so a program that runs under a sanitizer
// keeps its own.
#pragma once

#include <weft_sim/simd.h>

#define WEFT_SIM_HOOK extern "C" __attribute__((disable_sanitizer_instrumentation, visibility("hidden"), noinline, used))
#define WEFT_SIM_TOUCH(where, size, how) weft_sim::runtime->access(where, size, how, __builtin_return_address(0))

WEFT_SIM_HOOK void __tsan_init() {}

#define WEFT_SIM_ACCESSES(bytes)                                                                            \
  WEFT_SIM_HOOK void __tsan_read##bytes(void* p) { WEFT_SIM_TOUCH(p, bytes, weft_sim::kRead); }             \
  WEFT_SIM_HOOK void __tsan_write##bytes(void* p) { WEFT_SIM_TOUCH(p, bytes, weft_sim::kWrite); }           \
  WEFT_SIM_HOOK void __tsan_unaligned_read##bytes(void* p) { WEFT_SIM_TOUCH(p, bytes, weft_sim::kRead); }   \
  WEFT_SIM_HOOK void __tsan_unaligned_write##bytes(void* p) { WEFT_SIM_TOUCH(p, bytes, weft_sim::kWrite); } \
  WEFT_SIM_HOOK void __tsan_volatile_read##bytes(void* p) { WEFT_SIM_TOUCH(p, bytes, weft_sim::kRead); }    \
  WEFT_SIM_HOOK void __tsan_volatile_write##bytes(void* p) { WEFT_SIM_TOUCH(p, bytes, weft_sim::kWrite); }  \
  WEFT_SIM_HOOK void __tsan_read_write##bytes(void* p) {                                                    \
    WEFT_SIM_TOUCH(p, bytes, weft_sim::kRead);                                                              \
    WEFT_SIM_TOUCH(p, bytes, weft_sim::kWrite);                                                             \
  }                                                                                                         \
  WEFT_SIM_HOOK void __tsan_unaligned_read_write##bytes(void* p) {                                          \
    WEFT_SIM_TOUCH(p, bytes, weft_sim::kRead);                                                              \
    WEFT_SIM_TOUCH(p, bytes, weft_sim::kWrite);                                                             \
  }
WEFT_SIM_ACCESSES(1)
WEFT_SIM_ACCESSES(2)
WEFT_SIM_ACCESSES(4)
WEFT_SIM_ACCESSES(8)
WEFT_SIM_ACCESSES(16)

WEFT_SIM_HOOK void __tsan_read_range(void* p, unsigned long bytes) { WEFT_SIM_TOUCH(p, bytes, weft_sim::kRead); }
WEFT_SIM_HOOK void __tsan_write_range(void* p, unsigned long bytes) { WEFT_SIM_TOUCH(p, bytes, weft_sim::kWrite); }
WEFT_SIM_HOOK void* __tsan_memcpy(void* to, const void* from, unsigned long bytes) {
  WEFT_SIM_TOUCH(from, bytes, weft_sim::kRead);
  WEFT_SIM_TOUCH(to, bytes, weft_sim::kWrite);
  return __builtin_memcpy(to, from, bytes);
}
WEFT_SIM_HOOK void* __tsan_memmove(void* to, const void* from, unsigned long bytes) {
  WEFT_SIM_TOUCH(from, bytes, weft_sim::kRead);
  WEFT_SIM_TOUCH(to, bytes, weft_sim::kWrite);
  return __builtin_memmove(to, from, bytes);
}
WEFT_SIM_HOOK void* __tsan_memset(void* to, int value, unsigned long bytes) {
  WEFT_SIM_TOUCH(to, bytes, weft_sim::kWrite);
  return __builtin_memset(to, value, bytes);
}

// The operations that atomic.h uses: loads, stores, exchanges and compare-and-exchanges.
#define WEFT_SIM_ATOMICS(bits, T)                                                                            \
  WEFT_SIM_HOOK T __tsan_atomic##bits##_load(const volatile T* p, int) {                                     \
    WEFT_SIM_TOUCH(const_cast<const T*>(p), bits / 8, weft_sim::kAtomic | weft_sim::kRead);                  \
    return __atomic_load_n(p, __ATOMIC_RELAXED);                                                             \
  }                                                                                                          \
  WEFT_SIM_HOOK void __tsan_atomic##bits##_store(volatile T* p, T value, int) {                              \
    WEFT_SIM_TOUCH(const_cast<const T*>(p), bits / 8, weft_sim::kAtomic | weft_sim::kWrite);                 \
    __atomic_store_n(p, value, __ATOMIC_RELAXED);                                                            \
  }                                                                                                          \
  WEFT_SIM_HOOK T __tsan_atomic##bits##_exchange(volatile T* p, T value, int) {                              \
    WEFT_SIM_TOUCH(const_cast<const T*>(p), bits / 8, weft_sim::kAtomic | weft_sim::kRead);                  \
    WEFT_SIM_TOUCH(const_cast<const T*>(p), bits / 8, weft_sim::kAtomic | weft_sim::kWrite);                 \
    return __atomic_exchange_n(p, value, __ATOMIC_RELAXED);                                                  \
  }                                                                                                          \
  WEFT_SIM_HOOK T __tsan_atomic##bits##_compare_exchange_val(volatile T* p, T expected, T value, int, int) { \
    WEFT_SIM_TOUCH(const_cast<const T*>(p), bits / 8, weft_sim::kAtomic | weft_sim::kWrite);                 \
    __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);             \
    return expected;                                                                                         \
  }
WEFT_SIM_ATOMICS(8, unsigned char)
WEFT_SIM_ATOMICS(16, unsigned short)
WEFT_SIM_ATOMICS(32, unsigned int)
WEFT_SIM_ATOMICS(64, unsigned long)
WEFT_SIM_HOOK void __tsan_atomic_thread_fence(int) {}
WEFT_SIM_HOOK void __tsan_atomic_signal_fence(int) {}

// The common prefix of every UndefinedBehaviorSanitizer report.
struct weft_sim_place {
  const char* file;
  unsigned line, column;
};
#define WEFT_SIM_MISUSE(what) weft_sim::runtime->fail(what, {place->file, int(place->line), int(place->column)})
WEFT_SIM_HOOK void __ubsan_handle_type_mismatch_v1(weft_sim_place* place, void*) { WEFT_SIM_MISUSE("misaligned address"); }
WEFT_SIM_HOOK void __ubsan_handle_out_of_bounds(weft_sim_place* place, void*) { WEFT_SIM_MISUSE("index outside the array"); }
WEFT_SIM_HOOK void __ubsan_handle_shift_out_of_bounds(weft_sim_place* place, void*, void*) {
  WEFT_SIM_MISUSE("shift by no fewer bits than there are");
}
WEFT_SIM_HOOK void __ubsan_handle_float_cast_overflow(weft_sim_place* place, void*) {
  WEFT_SIM_MISUSE("conversion to an integer type that cannot hold the value");
}
WEFT_SIM_HOOK void __ubsan_handle_missing_return(weft_sim_place* place) {
  WEFT_SIM_MISUSE("a function ends without the value that it returns");
}
WEFT_SIM_HOOK void __ubsan_handle_divrem_overflow(weft_sim_place* place, void*, void*) { WEFT_SIM_MISUSE("integer division by zero"); }
