// simdgroup_matrix<T, 8, 8>: 64 elements over 32 lanes, each with two neighbours of a row.
//
// The mapping of lanes to elements is the one observed on Apple GPUs (and relied on by published kernels): lane bits abcde, high to low,
// hold row a.cd and columns b.e.0 and b.e.1 (read as three-bit numbers).
#pragma once

#include <weft_sim/simd.h>

namespace weft_sim {

struct Place {
  uint row, column;  // of the first of a lane's two elements; the second is one column on
};
WEFT_SIM_INLINE constexpr Place place_of(uint lane) { return {(lane >> 2 & 4) | (lane >> 1 & 3), (lane >> 1 & 4) | (lane << 1 & 2)}; }

template <class T>
struct Fragment {
  T e[2];
};

template <class D, class A, class B, class C>
struct Product {
  Fragment<A> a;
  Fragment<B> b;
  Fragment<C> c;
  Fragment<D> d;
  Site site;
};

// Apple does not document in which order the eight products of an element and its old value are added. Kernels may rely on one thing: the
// order may depend on the element's column, not on its row. `matrix_order` is 0: k ascends, one fma after the other from the old value; or
// a seed: each column has its own permutation of k, and if the seed is odd the products are added to each other before the old value.
struct MatrixOrder {
  unsigned char k[8][8];  // [step][column]
  bool products_first;
};
inline MatrixOrder matrix_order(unsigned seed) {
  MatrixOrder order{{}, seed % 2 == 1};
  unsigned random = seed;
  for (int j = 0; j < 8; ++j) {
    for (int step = 0; step < 8; ++step) order.k[step][j] = (unsigned char)step;
    for (int step = 7; step > 0 && seed != 0; --step) {
      random = random * 747796405u + 2891336453u;
      const int other = int((random >> 16) % unsigned(step + 1));
      const unsigned char k = order.k[step][j];
      order.k[step][j] = order.k[other][j];
      order.k[other][j] = k;
    }
  }
  return order;
}

// d = a * b + d in f32.
WEFT_SIM_INLINE void multiply_in_order(const float (&a)[8][8], const float (&b)[8][8], float (&d)[8][8]) {
  if (runtime->matrix_order == 0) {
    for (int i = 0; i < 8; ++i)
      for (int k = 0; k < 8; ++k)
        for (int j = 0; j < 8; ++j) d[i][j] = __builtin_fmaf(a[i][k], b[k][j], d[i][j]);
    return;
  }
  const MatrixOrder order = matrix_order(runtime->matrix_order);
  for (int i = 0; i < 8; ++i)
    for (int j = 0; j < 8; ++j) {
      float sum = order.products_first ? 0.0f : d[i][j];
      for (int step = 0; step < 8; ++step) sum = __builtin_fmaf(a[i][order.k[step][j]], b[order.k[step][j]][j], sum);
      d[i][j] = order.products_first ? d[i][j] + sum : sum;
    }
}

// d = a * b + c for the whole simdgroup.
template <class D, class A, class B, class C>
void multiply(void* const* slots, unsigned active) {
  using P = Product<D, A, B, C>;
  if (active != 0xffffffffu) {
    const P& some = *static_cast<P*>(slots[__builtin_ctz(active)]);
    runtime->fail("a simdgroup_matrix product needs all 32 lanes; some are not active", some.site);
  }
  float a[8][8], b[8][8], d[8][8];
  for (uint lane = 0; lane < 32; ++lane) {
    const P& p = *static_cast<P*>(slots[lane]);
    const Place at = place_of(lane);
    for (uint i = 0; i < 2; ++i) {
      a[at.row][at.column + i] = float(p.a.e[i]);
      b[at.row][at.column + i] = float(p.b.e[i]);
      d[at.row][at.column + i] = float(p.c.e[i]);
    }
  }
  multiply_in_order(a, b, d);
  for (uint lane = 0; lane < 32; ++lane) {
    P& p = *static_cast<P*>(slots[lane]);
    const Place at = place_of(lane);
    for (uint i = 0; i < 2; ++i) p.d.e[i] = D(d[at.row][at.column + i]);
  }
  runtime->multiply_adds(512);
}

// Loads and stores also act for the whole simdgroup.
inline void need_all_lanes(void* const* slots, unsigned active) {
  if (active != 0xffffffffu)
    runtime->fail("a simdgroup_matrix is loaded and stored by all 32 lanes; some are not active",
                  *static_cast<const Site*>(slots[__builtin_ctz(active)]));
}
WEFT_SIM_INLINE void come_together(const char* function, Site site) {
#ifdef WEFT_SIM_INSTRUMENTED
  simd(&need_all_lanes, &site, function, site);
#endif
}

}  // namespace weft_sim

namespace metal {

template <class T, int Rows = 8, int Columns = 8>
struct simdgroup_matrix {
  static_assert(Rows == 8 && Columns == 8, "a simdgroup_matrix is 8x8");
  typedef vec<T, 2> storage_type;

  simdgroup_matrix() = default;
  WEFT_SIM_INLINE explicit simdgroup_matrix(T diagonal) {
    const weft_sim::Place at = weft_sim::place_of(weft_sim::lane());
    elements_ = vec<T, 2>(at.row == at.column ? diagonal : T(0), at.row == at.column + 1 ? diagonal : T(0));
  }
  WEFT_SIM_INLINE vec<T, 2>& thread_elements() { return elements_; }
  WEFT_SIM_INLINE const vec<T, 2>& thread_elements() const { return elements_; }
  WEFT_SIM_INLINE weft_sim::Fragment<T> fragment() const { return {{elements_.all[0], elements_.all[1]}}; }

 private:
  vec<T, 2> elements_;
};

template <class T, int Rows = 8, int Columns = 8>
WEFT_SIM_INLINE simdgroup_matrix<T, Rows, Columns> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, Rows, Columns> matrix;
  matrix.thread_elements() = vec<T, 2>(value);
  return matrix;
}

// The address of this lane's element i; `origin` is (column, row).
WEFT_SIM_INLINE ulong simdgroup_offset(uint i, ulong elements_per_row, ulong2 origin, bool transpose) {
  const weft_sim::Place at = weft_sim::place_of(weft_sim::lane());
  const ulong row = transpose ? at.column + i : at.row, column = transpose ? at.row : at.column + i;
  return (row + origin.y) * elements_per_row + column + origin.x;
}
template <class T>
WEFT_SIM_INLINE void simdgroup_load(simdgroup_matrix<T, 8, 8>& matrix, const T* from, ulong elements_per_row = 8, ulong2 origin = ulong2(0),
                                    bool transpose = false, Site site = Site::here()) {
  weft_sim::come_together("simdgroup_load", site);
  for (uint i = 0; i < 2; ++i) matrix.thread_elements().all[i] = from[simdgroup_offset(i, elements_per_row, origin, transpose)];
}
template <class T>
WEFT_SIM_INLINE void simdgroup_store(const simdgroup_matrix<T, 8, 8>& matrix, T* to, ulong elements_per_row = 8, ulong2 origin = ulong2(0),
                                     bool transpose = false, Site site = Site::here()) {
  weft_sim::come_together("simdgroup_store", site);
  for (uint i = 0; i < 2; ++i) to[simdgroup_offset(i, elements_per_row, origin, transpose)] = matrix.thread_elements().all[i];
}

template <class D, class A, class B, class C>
WEFT_SIM_INLINE void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                                   const simdgroup_matrix<B, 8, 8>& b, const simdgroup_matrix<C, 8, 8>& c,
                                                   Site site = Site::here()) {
  weft_sim::Product<D, A, B, C> product{a.fragment(), b.fragment(), c.fragment(), {}, site};
  weft_sim::simd(&weft_sim::multiply<D, A, B, C>, &product, "simdgroup_multiply_accumulate", site);
  d.thread_elements().all[0] = product.d.e[0];
  d.thread_elements().all[1] = product.d.e[1];
}
template <class D, class A, class B>
WEFT_SIM_INLINE void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                        const simdgroup_matrix<B, 8, 8>& b, Site site = Site::here()) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D>(D(0)), site);
}

typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

}  // namespace metal
