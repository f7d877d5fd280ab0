// vec<T, N> with its swizzles, packed_T3 and the like, and T4x4 matrices without arithmetic of their own.
//
// An operator takes two vectors of one type, or a vector and a scalar; element types are never converted implicitly.
#pragma once
// clang-format off: macro calls without semicolons are indented further by every run.

#include <weft_sim/types.h>

namespace metal {

template <class T, int N>
struct vec;

// The components I... of a vector of N, as an lvalue.
template <class T, int N, int... I>
struct Swizzle {
  T all[N];
  using Vector = vec<T, sizeof...(I)>;
  constexpr operator Vector() const { return Vector(all[I]...); }
  constexpr Swizzle& operator=(const Vector& from) {
    int k = 0;
    ((all[I] = from[k++]), ...);
    return *this;
  }
  constexpr Swizzle& operator=(const Swizzle& from) { return *this = Vector(from); }
  template <class U>
  constexpr Swizzle& operator+=(const U& u) { return *this = Vector(*this) + u; }
  template <class U>
  constexpr Swizzle& operator-=(const U& u) { return *this = Vector(*this) - u; }
  template <class U>
  constexpr Swizzle& operator*=(const U& u) { return *this = Vector(*this) * u; }
};

// X as a vector: its element type, its length (1 for a scalar), the vec type itself.
template <class X>
struct VectorOf {
  static constexpr int length = 0;
};
template <class T, int N>
struct VectorOf<vec<T, N>> {
  using Element = T;
  using Type = vec<T, N>;
  static constexpr int length = N;
};
template <class T, int N, int... I>
struct VectorOf<Swizzle<T, N, I...>> : VectorOf<vec<T, sizeof...(I)>> {};

template <class X>
using Bare = remove_cv_t<remove_reference_t<X>>;
template <class X>
constexpr bool is_vector = VectorOf<Bare<X>>::length != 0;
template <class X>
constexpr int components = is_vector<X> ? VectorOf<Bare<X>>::length : 1;
template <class X>
using VectorType = typename VectorOf<Bare<X>>::Type;
template <class X>
using ElementType = typename VectorOf<Bare<X>>::Element;

#define WEFT_SIM_SWIZZLE(N, name, ...) Swizzle<T, N, __VA_ARGS__> name;
#define WEFT_SIM_SWIZZLES_XY(N) \
  WEFT_SIM_SWIZZLE(N, xx, 0, 0) WEFT_SIM_SWIZZLE(N, xy, 0, 1) WEFT_SIM_SWIZZLE(N, yx, 1, 0) WEFT_SIM_SWIZZLE(N, yy, 1, 1)
#define WEFT_SIM_SWIZZLES_XYZ(N)                                                                                                   \
  WEFT_SIM_SWIZZLE(N, xz, 0, 2) WEFT_SIM_SWIZZLE(N, yz, 1, 2) WEFT_SIM_SWIZZLE(N, zx, 2, 0) WEFT_SIM_SWIZZLE(N, zy, 2, 1)          \
  WEFT_SIM_SWIZZLE(N, zz, 2, 2) WEFT_SIM_SWIZZLE(N, xyz, 0, 1, 2) WEFT_SIM_SWIZZLE(N, zyx, 2, 1, 0) WEFT_SIM_SWIZZLE(N, xxx, 0, 0, 0)
#define WEFT_SIM_SWIZZLES_XYZW(N)                                                                                                  \
  WEFT_SIM_SWIZZLE(N, xw, 0, 3) WEFT_SIM_SWIZZLE(N, yw, 1, 3) WEFT_SIM_SWIZZLE(N, zw, 2, 3) WEFT_SIM_SWIZZLE(N, wz, 3, 2)          \
  WEFT_SIM_SWIZZLE(N, ww, 3, 3) WEFT_SIM_SWIZZLE(N, yzw, 1, 2, 3) WEFT_SIM_SWIZZLE(N, xyzw, 0, 1, 2, 3)                            \
  WEFT_SIM_SWIZZLE(N, wzyx, 3, 2, 1, 0) WEFT_SIM_SWIZZLE(N, yxwz, 1, 0, 3, 2) WEFT_SIM_SWIZZLE(N, zwxy, 2, 3, 0, 1)                \
  WEFT_SIM_SWIZZLE(N, xxxx, 0, 0, 0, 0)

template <class T, int N>
struct Components;
template <class T>
struct alignas(2 * sizeof(T)) Components<T, 2> {
  union {
    T all[2];
    struct { T x, y; };
    WEFT_SIM_SWIZZLES_XY(2)
  };
};
template <class T>
struct alignas(4 * sizeof(T)) Components<T, 3> {
  union {
    T all[3];
    struct { T x, y, z; };
    WEFT_SIM_SWIZZLES_XY(3) WEFT_SIM_SWIZZLES_XYZ(3)
  };
};
template <class T>
struct alignas(4 * sizeof(T)) Components<T, 4> {
  union {
    T all[4];
    struct { T x, y, z, w; };
    WEFT_SIM_SWIZZLES_XY(4) WEFT_SIM_SWIZZLES_XYZ(4) WEFT_SIM_SWIZZLES_XYZW(4)
  };
};

template <class T, int N>
struct vec : Components<T, N> {
  using Components<T, N>::all;

  vec() = default;
  // Written out because a swizzle inside the union has its own assignment.
  constexpr vec(const vec& from) : Components<T, N>{} { assign(from); }
  constexpr vec& operator=(const vec& from) { return assign(from); }
  constexpr vec(T value) : Components<T, N>{} {
    for (int i = 0; i < N; ++i) all[i] = value;
  }
  template <class A, class B, class... More, class = enable_if_t<components<A> + components<B> + (0 + ... + components<More>) == N>>
  constexpr vec(const A& a, const B& b, const More&... more) : Components<T, N>{} {
    int at = 0;
    put(at, a);
    put(at, b);
    (put(at, more), ...);
  }
  template <class U, class = enable_if_t<!is_same_v<U, T>>>
  constexpr explicit vec(const vec<U, N>& from) : Components<T, N>{} {
    for (int i = 0; i < N; ++i) all[i] = T(from.all[i]);
  }

  template <class I>
  constexpr T& operator[](I i) { return all[i]; }
  template <class I>
  constexpr const T& operator[](I i) const { return all[i]; }

#define WEFT_SIM_ASSIGN(op) \
  template <class U>        \
  constexpr vec& operator op##=(const U& u) { return *this = *this op u; }
  WEFT_SIM_ASSIGN(+) WEFT_SIM_ASSIGN(-) WEFT_SIM_ASSIGN(*) WEFT_SIM_ASSIGN(/) WEFT_SIM_ASSIGN(%) WEFT_SIM_ASSIGN(&) WEFT_SIM_ASSIGN(|)
  WEFT_SIM_ASSIGN(^) WEFT_SIM_ASSIGN(<<) WEFT_SIM_ASSIGN(>>)

 private:
  constexpr vec& assign(const vec& from) {
    for (int i = 0; i < N; ++i) all[i] = from.all[i];
    return *this;
  }
  template <class A>
  constexpr void put(int& at, const A& a) {
    if constexpr (is_vector<A>) {
      const VectorType<A> v = a;
      for (int i = 0; i < components<A>; ++i) all[at++] = T(v[i]);
    } else {
      all[at++] = T(a);
    }
  }
};

// The result type of an operator on A and B; no type, no operator.
template <class A, class B, class = void>
struct Common {};
template <class A, class B>
struct Common<A, B, enable_if_t<is_vector<A> && is_vector<B> && is_same_v<VectorType<A>, VectorType<B>>>> {
  using Type = VectorType<A>;
};
template <class A, class B>
struct Common<A, B, enable_if_t<is_vector<A> && is_arithmetic_v<Bare<B>>>> {
  using Type = VectorType<A>;
};
template <class A, class B>
struct Common<A, B, enable_if_t<is_arithmetic_v<Bare<A>> && is_vector<B>>> {
  using Type = VectorType<B>;
};
template <class A, class B>
using CommonType = typename Common<A, B>::Type;

template <class V, class X>
constexpr V spread(const X& x) {
  if constexpr (is_vector<X>) return V(x);
  else return V(ElementType<V>(x));
}

// Applies f to every component.
template <class V, class F>
WEFT_SIM_INLINE V map(const V& a, F f) {
  V result{};
  for (int i = 0; i < components<V>; ++i) result.all[i] = f(a.all[i]);
  return result;
}
template <class V, class F>
constexpr V map(const V& a, const V& b, F f) {
  V result{};
  for (int i = 0; i < components<V>; ++i) result.all[i] = f(a.all[i], b.all[i]);
  return result;
}

#define WEFT_SIM_BINARY(op)                                                                  \
  template <class A, class B, class V = CommonType<A, B>>                                    \
  constexpr V operator op(const A& a, const B& b) {                                          \
    using T = ElementType<V>;                                                                \
    return map(spread<V>(a), spread<V>(b), [](T x, T y) { return T(x op y); });              \
  }
WEFT_SIM_BINARY(+) WEFT_SIM_BINARY(-) WEFT_SIM_BINARY(*) WEFT_SIM_BINARY(/) WEFT_SIM_BINARY(%)
WEFT_SIM_BINARY(&) WEFT_SIM_BINARY(|) WEFT_SIM_BINARY(^) WEFT_SIM_BINARY(<<) WEFT_SIM_BINARY(>>)

#define WEFT_SIM_COMPARE(op)                                                                 \
  template <class A, class B, class V = CommonType<A, B>>                                    \
  constexpr vec<bool, components<V>> operator op(const A& a, const B& b) {                   \
    const V x = spread<V>(a), y = spread<V>(b);                                              \
    vec<bool, components<V>> result{};                                                       \
    for (int i = 0; i < components<V>; ++i) result.all[i] = x.all[i] op y.all[i];            \
    return result;                                                                           \
  }
WEFT_SIM_COMPARE(<) WEFT_SIM_COMPARE(>) WEFT_SIM_COMPARE(<=) WEFT_SIM_COMPARE(>=) WEFT_SIM_COMPARE(==) WEFT_SIM_COMPARE(!=)
WEFT_SIM_COMPARE(&&) WEFT_SIM_COMPARE(||)

template <class A, class = enable_if_t<is_vector<A>>>
constexpr VectorType<A> operator-(const A& a) {
  const VectorType<A> x = a;
  VectorType<A> result{};
  for (int i = 0; i < components<A>; ++i) result.all[i] = -x.all[i];
  return result;
}
template <class A, class = enable_if_t<is_vector<A>>>
constexpr VectorType<A> operator~(const A& a) {
  const VectorType<A> x = a;
  VectorType<A> result{};
  for (int i = 0; i < components<A>; ++i) result.all[i] = ~x.all[i];
  return result;
}
template <class A, class = enable_if_t<is_vector<A>>>
constexpr vec<bool, components<A>> operator!(const A& a) {
  const VectorType<A> x = a;
  vec<bool, components<A>> result{};
  for (int i = 0; i < components<A>; ++i) result.all[i] = !x.all[i];
  return result;
}

template <class T, int N>
struct packed_vec {
  T all[N];
  packed_vec() = default;
  constexpr packed_vec(const vec<T, N>& from) {
    for (int i = 0; i < N; ++i) all[i] = from.all[i];
  }
  constexpr operator vec<T, N>() const {
    vec<T, N> to{};
    for (int i = 0; i < N; ++i) to.all[i] = all[i];
    return to;
  }
  constexpr T& operator[](int i) { return all[i]; }
  constexpr T operator[](int i) const { return all[i]; }
};

template <class T, size_t N>
struct array {
  T all[N];
  constexpr T& operator[](size_t i) { return all[i]; }
  constexpr const T& operator[](size_t i) const { return all[i]; }
  static constexpr size_t size() { return N; }
};

}  // namespace metal

using metal::vec;

#define WEFT_SIM_NAME_VECTOR(T, N)                 \
  typedef metal::vec<T, N> T##N;                   \
  typedef metal::packed_vec<T, N> packed_##T##N;   \
  namespace metal {                                \
  using ::T##N;                                    \
  using ::packed_##T##N;                           \
  }
#define WEFT_SIM_NAME_VECTORS(T) WEFT_SIM_NAME_VECTOR(T, 2) WEFT_SIM_NAME_VECTOR(T, 3) WEFT_SIM_NAME_VECTOR(T, 4)
WEFT_SIM_NAME_VECTORS(bool)
WEFT_SIM_NAME_VECTORS(char)
WEFT_SIM_NAME_VECTORS(uchar)
WEFT_SIM_NAME_VECTORS(short)
WEFT_SIM_NAME_VECTORS(ushort)
WEFT_SIM_NAME_VECTORS(int)
WEFT_SIM_NAME_VECTORS(uint)
WEFT_SIM_NAME_VECTORS(long)
WEFT_SIM_NAME_VECTORS(ulong)
WEFT_SIM_NAME_VECTORS(half)
WEFT_SIM_NAME_VECTORS(bfloat)
WEFT_SIM_NAME_VECTORS(float)
