// Barriers and simdgroup functions.
//
// Each lane of a simdgroup function leaves a slot on its own stack: its operand and the place of its result. When the last lane has
// arrived, one function reads the slots of all and fills in the results. A lane that is not active has no slot; reading from it gives all
// bits set, which is NaN, and is an error in checked builds.
#pragma once

#include <weft_sim/abi.h>
#include <weft_sim/math.h>

namespace weft_sim {

static const Runtime* runtime;  // set when the text is loaded

WEFT_SIM_INLINE unsigned lane() { return runtime->self()->lane; }

// Identifies the chain of calls from the kernel's entry to this place. (Kernels are compiled with -fconvergent-functions: no copy of a call
// is made for a subset of the threads.)
__attribute__((noinline, disable_sanitizer_instrumentation)) inline unsigned long way_here() {
  const void* entry = runtime->self()->frame;
  unsigned long way = 0;
  void** frame = static_cast<void**>(__builtin_frame_address(0));
  for (int depth = 0; frame != entry && depth < 64; ++depth, frame = static_cast<void**>(*frame))
    way = way * 0x9e3779b97f4a7c15u + reinterpret_cast<unsigned long>(frame[1]);
  return way;
}
WEFT_SIM_INLINE Site come_to(Site site) {
  site.way = way_here();
  return site;
}
WEFT_SIM_INLINE void simd(Combine combine, void* slot, const char* function, Site site) {
  runtime->simd(combine, slot, function, come_to(site));
}

template <class T>
struct Slot {
  T value, result;
  unsigned from;  // the lane that is read
};

template <class T>
WEFT_SIM_INLINE T undefined_value() {
  T value;
  __builtin_memset(static_cast<void*>(&value), 0xff, sizeof(T));
  return value;
}

template <class T>
void read_lanes(void* const* slots, unsigned active) {
  for (int i = 0; i < kLanes; ++i) {
    if (!(active >> i & 1)) continue;
    Slot<T>& slot = *static_cast<Slot<T>*>(slots[i]);
    const bool there = slot.from < unsigned(kLanes) && (active >> slot.from & 1);
    if (!there) runtime->inactive(unsigned(i), slot.from);
    slot.result = there ? static_cast<Slot<T>*>(slots[slot.from])->value : undefined_value<T>();
  }
}

template <class T>
WEFT_SIM_INLINE T read_lane(T value, unsigned from, const char* function, Site site) {
  Slot<T> slot{value, value, from};
  simd(&read_lanes<T>, &slot, function, site);
  return slot.result;
}

// Combines in the order of the lanes; every lane gets the same result.
template <class T, class F>
void reduce_lanes(void* const* slots, unsigned active) {
  const int first = __builtin_ctz(active);
  T sum = static_cast<Slot<T>*>(slots[first])->value;
  for (int i = first + 1; i < kLanes; ++i) {
    if (active >> i & 1) sum = F()(sum, static_cast<Slot<T>*>(slots[i])->value);
  }
  for (int i = first; i < kLanes; ++i) {
    if (active >> i & 1) static_cast<Slot<T>*>(slots[i])->result = sum;
  }
}

template <class F, class T>
WEFT_SIM_INLINE T reduce(T value, const char* function, Site site) {
  Slot<T> slot{value, value, 0};
  simd(&reduce_lanes<T, F>, &slot, function, site);
  return slot.result;
}

// Prefix combination: every lane gets the combination of the lanes before it, and of itself if `inclusive`.
template <class T, class F, bool inclusive>
void scan_lanes(void* const* slots, unsigned active) {
  T sum = F::template identity<T>();
  for (int i = 0; i < kLanes; ++i) {
    if (!(active >> i & 1)) continue;
    Slot<T>& slot = *static_cast<Slot<T>*>(slots[i]);
    const T with = F()(sum, slot.value);
    slot.result = inclusive ? with : sum;
    sum = with;
  }
}

template <class F, bool inclusive, class T>
WEFT_SIM_INLINE T scan(T value, const char* function, Site site) {
  Slot<T> slot{value, value, 0};
  simd(&scan_lanes<T, F, inclusive>, &slot, function, site);
  return slot.result;
}

struct Add {
  template <class T>
  static T identity() {
    return T(0);
  }
  template <class T>
  T operator()(T a, T b) const {
    return T(a + b);
  }
};
struct Multiply {
  template <class T>
  static T identity() {
    return T(1);
  }
  template <class T>
  T operator()(T a, T b) const {
    return T(a * b);
  }
};
struct Greater {
  template <class T>
  T operator()(T a, T b) const {
    return metal::max(a, b);
  }
};
struct Less {
  template <class T>
  T operator()(T a, T b) const {
    return metal::min(a, b);
  }
};
struct And {
  template <class T>
  T operator()(T a, T b) const {
    return T(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return T(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return T(a ^ b);
  }
};

inline void gather_votes(void* const* slots, unsigned active) {
  ulong votes = 0;
  for (int i = 0; i < kLanes; ++i) {
    if ((active >> i & 1) && static_cast<Slot<ulong>*>(slots[i])->value) votes |= 1ul << i;
  }
  for (int i = 0; i < kLanes; ++i) {
    if (active >> i & 1) *static_cast<Slot<ulong>*>(slots[i]) = {active, votes, 0};
  }
}
WEFT_SIM_INLINE Slot<ulong> vote(bool value, const char* function, Site site) {
  Slot<ulong> slot{value, 0, 0};
  simd(&gather_votes, &slot, function, site);
  return slot;
}

}  // namespace weft_sim

namespace metal {

using weft_sim::Site;

enum class mem_flags : unsigned { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(unsigned(a) | unsigned(b)); }

WEFT_SIM_INLINE void threadgroup_barrier(mem_flags flags, Site site = Site::here()) {
  weft_sim::runtime->threadgroup_barrier(unsigned(flags), weft_sim::come_to(site));
}
WEFT_SIM_INLINE void simdgroup_barrier(mem_flags flags, Site site = Site::here()) {
  weft_sim::runtime->simdgroup_barrier(unsigned(flags), weft_sim::come_to(site));
}

#define WEFT_SIM_REDUCE(name, F)                              \
  template <class T>                                          \
  WEFT_SIM_INLINE T name(T value, Site site = Site::here()) { \
    return weft_sim::reduce<weft_sim::F>(value, #name, site); \
  }
WEFT_SIM_REDUCE(simd_sum, Add)
WEFT_SIM_REDUCE(simd_product, Multiply)
WEFT_SIM_REDUCE(simd_max, Greater)
WEFT_SIM_REDUCE(simd_min, Less)
WEFT_SIM_REDUCE(simd_and, And)
WEFT_SIM_REDUCE(simd_or, Or)
WEFT_SIM_REDUCE(simd_xor, Xor)

#define WEFT_SIM_SCAN(name, F, inclusive)                              \
  template <class T>                                                   \
  WEFT_SIM_INLINE T name(T value, Site site = Site::here()) {          \
    return weft_sim::scan<weft_sim::F, inclusive>(value, #name, site); \
  }
WEFT_SIM_SCAN(simd_prefix_inclusive_sum, Add, true)
WEFT_SIM_SCAN(simd_prefix_exclusive_sum, Add, false)
WEFT_SIM_SCAN(simd_prefix_inclusive_product, Multiply, true)
WEFT_SIM_SCAN(simd_prefix_exclusive_product, Multiply, false)

// `from`: which lane to read, given this one (me) and the argument (by).
#define WEFT_SIM_SHUFFLE(name, from)                                     \
  template <class T>                                                     \
  WEFT_SIM_INLINE T name(T value, ushort by, Site site = Site::here()) { \
    const uint me = weft_sim::lane();                                    \
    return weft_sim::read_lane(value, from, #name, site);                \
  }
WEFT_SIM_SHUFFLE(simd_shuffle, (void(me), by))
WEFT_SIM_SHUFFLE(simd_broadcast, (void(me), by))
WEFT_SIM_SHUFFLE(simd_shuffle_xor, me ^ by)
WEFT_SIM_SHUFFLE(simd_shuffle_down, me + by < 32 ? me + by : me)
WEFT_SIM_SHUFFLE(simd_shuffle_up, me >= by ? me - by : me)
WEFT_SIM_SHUFFLE(simd_shuffle_rotate_down, (me + by) & 31)
WEFT_SIM_SHUFFLE(simd_shuffle_rotate_up, (me - by) & 31)
WEFT_SIM_SHUFFLE(quad_shuffle, (me & ~3u) + (by & 3))
WEFT_SIM_SHUFFLE(quad_broadcast, (me & ~3u) + (by & 3))
WEFT_SIM_SHUFFLE(quad_shuffle_xor, me ^ (by & 3))

template <class T>
WEFT_SIM_INLINE T simd_broadcast_first(T value, Site site = Site::here()) {
  const uint first = uint(__builtin_ctzl(weft_sim::vote(true, "simd_broadcast_first", site).value));
  return weft_sim::read_lane(value, first, "simd_broadcast_first", site);
}

struct simd_vote {
  typedef ulong vote_t;
  explicit constexpr simd_vote(vote_t votes = 0) : votes_(votes) {}
  explicit constexpr operator vote_t() const { return votes_; }
  constexpr bool all() const { return votes_ == 0xffffffffu; }
  constexpr bool any() const { return votes_ != 0; }

 private:
  vote_t votes_;
};
WEFT_SIM_INLINE simd_vote simd_ballot(bool value, Site site = Site::here()) {
  return simd_vote(weft_sim::vote(value, "simd_ballot", site).result);
}
WEFT_SIM_INLINE simd_vote simd_active_threads_mask(Site site = Site::here()) {
  return simd_vote(weft_sim::vote(true, "simd_active_threads_mask", site).result);
}
WEFT_SIM_INLINE bool simd_all(bool value, Site site = Site::here()) {
  const auto slot = weft_sim::vote(value, "simd_all", site);
  return slot.result == slot.value;  // of the active lanes
}
WEFT_SIM_INLINE bool simd_any(bool value, Site site = Site::here()) { return weft_sim::vote(value, "simd_any", site).result != 0; }
WEFT_SIM_INLINE bool simd_is_first(Site site = Site::here()) {
  return uint(__builtin_ctzl(weft_sim::vote(true, "simd_is_first", site).value)) == weft_sim::lane();
}

}  // namespace metal
