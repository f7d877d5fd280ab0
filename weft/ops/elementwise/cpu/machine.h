// The accumulator machine of weft/expr/program.h on vector registers: threaded code.
//
// The accumulator is eight registers, as many as calling conventions pass, handed from handler to handler as arguments.
// A handler does one instruction and ends by calling the next with the same signature, which compiles to a jump, so an
// instruction costs one predicted indirect jump per eight registers and a chain of values never touches memory.

#if defined(WEFT_OPS_ELEMENTWISE_MACHINE_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_ELEMENTWISE_MACHINE_H_
#undef WEFT_OPS_ELEMENTWISE_MACHINE_H_
#else
#define WEFT_OPS_ELEMENTWISE_MACHINE_H_
#endif

#include <hwy/cache_control.h>

#include <array>
#include <utility>

#include "weft/expr/program.h"
#include "weft/tile/cpu/erf.h"
#include "weft/tile/cpu/math.h"
#include "weft/tile/cpu/power.h"
#include "weft/tile/cpu/trig.h"

// GCC makes sibling calls of plain returns from -O2; clang needs an attribute. Under a sanitizer, or with no optimisation, calls
// stay calls, and a program returns after every step so that the stack stays short.
#ifndef WEFT_TAIL_CALL
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
#define WEFT_TAIL_CALL return
#define WEFT_STEPS_PER_CALL 1
#elif defined(__clang__)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define WEFT_TAIL_CALL return
#define WEFT_STEPS_PER_CALL 1
#else
#define WEFT_TAIL_CALL [[clang::musttail]] return
#define WEFT_STEPS_PER_CALL 32
#endif
#else
#define WEFT_TAIL_CALL return
#define WEFT_STEPS_PER_CALL 32
#endif
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

using expr::Action;
using expr::Mode;
using expr::Op;

inline constexpr int kStep = 8 * kLanes;  // elements in the accumulator

struct Link;
struct Machine;
using Handler = void (*)(const Link*, Machine*, V, V, V, V, V, V, V, V);

// An instruction with its code and the cells of its operands: a memory operand's cell holds its current address, a
// scalar's cell its value.
struct Link {
  Handler run;
  const void* cell[3];
};

struct Machine {
  const Link* first;
  int64_t steps;  // still to do
  int moving;     // cells that advance with the columns: inputs, of which there are `reading`, then outputs
  int reading;
  char** address;
  const int64_t* advance;  // bytes per step
};

#define WEFT_NEXT WEFT_TAIL_CALL link[1].run(link + 1, machine, a0, a1, a2, a3, a4, a5, a6, a7)

// ---- operands

template <Mode M>
struct From {  // the accumulator
  HWY_INLINE explicit From(const void*) {}
  HWY_INLINE V operator()(V a, int) const { return a; }
};
template <>
struct From<Mode::memory> {
  const float* p;
  HWY_INLINE explicit From(const void* cell) : p(*static_cast<const float* const*>(cell)) {}
  HWY_INLINE V operator()(V, int i) const { return hn::LoadU(D(), p + i * kLanes); }
};
template <>
struct From<Mode::scalar> {
  V v;
  HWY_INLINE explicit From(const void* cell) : v(hn::Set(D(), *static_cast<const float*>(cell))) {}
  HWY_INLINE V operator()(V, int) const { return v; }
};

// ---- the ops on a register

template <Op kOp>
HWY_INLINE V apply(V a) {
  if constexpr (kOp == Op::neg)
    return hn::Neg(a);
  else if constexpr (kOp == Op::abs)
    return hn::Abs(a);
  else if constexpr (kOp == Op::exp)
    return exp(a);
  else if constexpr (kOp == Op::exp2)
    return exp2(a);
  else if constexpr (kOp == Op::log)
    return log(a);
  else if constexpr (kOp == Op::log2)
    return log2(a);
  else if constexpr (kOp == Op::log1p)
    return log1p(a);
  else if constexpr (kOp == Op::sqrt)
    return hn::Sqrt(a);
  else if constexpr (kOp == Op::rsqrt)
    return rsqrt(a);
  else if constexpr (kOp == Op::reciprocal)
    return hn::Div(constant(1.0f), a);
  else if constexpr (kOp == Op::sin)
    return sin(a);
  else if constexpr (kOp == Op::cos)
    return cos(a);
  else if constexpr (kOp == Op::tan)
    return tan(a);
  else if constexpr (kOp == Op::tanh)
    return tanh(a);
  else if constexpr (kOp == Op::sigmoid)
    return sigmoid(a);
  else if constexpr (kOp == Op::erf)
    return erf(a);
  else if constexpr (kOp == Op::floor)
    return hn::Floor(a);
  else
    return hn::Round(a);  // to nearest, ties to even
}

// min and max by comparison, so that zeros of either sign and NaN are the same on every target; a NaN wins.
template <Op kOp>
HWY_INLINE V apply(V a, V b) {
  const V one = constant(1.0f);
  if constexpr (kOp == Op::add)
    return hn::Add(a, b);
  else if constexpr (kOp == Op::sub)
    return hn::Sub(a, b);
  else if constexpr (kOp == Op::mul)
    return hn::Mul(a, b);
  else if constexpr (kOp == Op::div)
    return hn::Div(a, b);
  else if constexpr (kOp == Op::min)
    return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
  else if constexpr (kOp == Op::max)
    return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(b)), b, a);
  else if constexpr (kOp == Op::pow)
    return pow(a, b);
  else if constexpr (kOp == Op::atan2)
    return atan2(a, b);
  else if constexpr (kOp == Op::less)
    return hn::IfThenElseZero(hn::Lt(a, b), one);
  else if constexpr (kOp == Op::less_equal)
    return hn::IfThenElseZero(hn::Le(a, b), one);
  else
    return hn::IfThenElseZero(hn::Eq(a, b), one);
}

// kSigns: 1 negates the product, 2 negates c.
template <Op kOp, int kSigns>
HWY_INLINE V apply(V a, V b, V c) {
  if constexpr (kOp == Op::fma && kSigns == 0)
    return hn::MulAdd(a, b, c);
  else if constexpr (kOp == Op::fma && kSigns == 1)
    return hn::NegMulAdd(a, b, c);
  else if constexpr (kOp == Op::fma && kSigns == 2)
    return hn::MulSub(a, b, c);
  else if constexpr (kOp == Op::fma)
    return hn::NegMulSub(a, b, c);
  else
    return hn::IfThenElse(hn::Eq(a, hn::Zero(D())), c, b);  // NaN is not 0
}

// ---- handlers

template <Op kOp, Mode A>
void unary(const Link* link, Machine* machine, V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7) {
  const From<A> a(link->cell[0]);
  a0 = apply<kOp>(a(a0, 0));
  a1 = apply<kOp>(a(a1, 1));
  a2 = apply<kOp>(a(a2, 2));
  a3 = apply<kOp>(a(a3, 3));
  a4 = apply<kOp>(a(a4, 4));
  a5 = apply<kOp>(a(a5, 5));
  a6 = apply<kOp>(a(a6, 6));
  a7 = apply<kOp>(a(a7, 7));
  WEFT_NEXT;
}
template <Op kOp, Mode A>
void unary_times(const Link* link, Machine* machine, V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7) {
  const From<A> a(link->cell[0]);
  const From<Mode::memory> b(link->cell[1]);
  a0 = hn::Mul(apply<kOp>(a(a0, 0)), b(a0, 0));
  a1 = hn::Mul(apply<kOp>(a(a1, 1)), b(a1, 1));
  a2 = hn::Mul(apply<kOp>(a(a2, 2)), b(a2, 2));
  a3 = hn::Mul(apply<kOp>(a(a3, 3)), b(a3, 3));
  a4 = hn::Mul(apply<kOp>(a(a4, 4)), b(a4, 4));
  a5 = hn::Mul(apply<kOp>(a(a5, 5)), b(a5, 5));
  a6 = hn::Mul(apply<kOp>(a(a6, 6)), b(a6, 6));
  a7 = hn::Mul(apply<kOp>(a(a7, 7)), b(a7, 7));
  WEFT_NEXT;
}
template <Op kOp, Mode A, Mode B>
void binary(const Link* link, Machine* machine, V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7) {
  const From<A> a(link->cell[0]);
  const From<B> b(link->cell[1]);
  a0 = apply<kOp>(a(a0, 0), b(a0, 0));
  a1 = apply<kOp>(a(a1, 1), b(a1, 1));
  a2 = apply<kOp>(a(a2, 2), b(a2, 2));
  a3 = apply<kOp>(a(a3, 3), b(a3, 3));
  a4 = apply<kOp>(a(a4, 4), b(a4, 4));
  a5 = apply<kOp>(a(a5, 5), b(a5, 5));
  a6 = apply<kOp>(a(a6, 6), b(a6, 6));
  a7 = apply<kOp>(a(a7, 7), b(a7, 7));
  WEFT_NEXT;
}
template <Op kOp, int kSigns, Mode A, Mode B, Mode C>
void ternary(const Link* link, Machine* machine, V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7) {
  const From<A> a(link->cell[0]);
  const From<B> b(link->cell[1]);
  const From<C> c(link->cell[2]);
  a0 = apply<kOp, kSigns>(a(a0, 0), b(a0, 0), c(a0, 0));
  a1 = apply<kOp, kSigns>(a(a1, 1), b(a1, 1), c(a1, 1));
  a2 = apply<kOp, kSigns>(a(a2, 2), b(a2, 2), c(a2, 2));
  a3 = apply<kOp, kSigns>(a(a3, 3), b(a3, 3), c(a3, 3));
  a4 = apply<kOp, kSigns>(a(a4, 4), b(a4, 4), c(a4, 4));
  a5 = apply<kOp, kSigns>(a(a5, 5), b(a5, 5), c(a5, 5));
  a6 = apply<kOp, kSigns>(a(a6, 6), b(a6, 6), c(a6, 6));
  a7 = apply<kOp, kSigns>(a(a7, 7), b(a7, 7), c(a7, 7));
  WEFT_NEXT;
}

template <class T>
void load_block(const Link* link, Machine* machine, V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7) {
  const T* p = *static_cast<const T* const*>(link->cell[0]);
  a0 = load_part(p);
  a1 = load_part(p + kLanes);
  a2 = load_part(p + 2 * kLanes);
  a3 = load_part(p + 3 * kLanes);
  a4 = load_part(p + 4 * kLanes);
  a5 = load_part(p + 5 * kLanes);
  a6 = load_part(p + 6 * kLanes);
  a7 = load_part(p + 7 * kLanes);
  WEFT_NEXT;
}
inline void load_scalar(const Link* link, Machine* machine, V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7) {
  a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = hn::Set(D(), *static_cast<const float*>(link->cell[0]));
  WEFT_NEXT;
}
// kStream: non-temporal, for outputs larger than the caches.
template <class T, bool kStream>
HWY_INLINE void put(const Link* link, V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7) {
  T* p = *static_cast<T* const*>(link->cell[0]);
  const auto part = [](V v, T* to) HWY_ATTR { kStream ? stream_part(v, to) : store_part(v, to); };
  part(a0, p);
  part(a1, p + kLanes);
  part(a2, p + 2 * kLanes);
  part(a3, p + 3 * kLanes);
  part(a4, p + 4 * kLanes);
  part(a5, p + 5 * kLanes);
  part(a6, p + 6 * kLanes);
  part(a7, p + 7 * kLanes);
}
template <class T, bool kStream>
void store_block(const Link* link, Machine* machine, V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7) {
  put<T, kStream>(link, a0, a1, a2, a3, a4, a5, a6, a7);
  WEFT_NEXT;
}
// The store that ends the program: continues with the next columns, or returns. Operands that come from memory are prefetched some steps
// ahead, across pages, at whose ends the hardware prefetcher stops.
template <class T, bool kStream>
void last_store(const Link* link, Machine* machine, V a0, V a1, V a2, V a3, V a4, V a5, V a6, V a7) {
  constexpr int64_t kAhead = 4096;  // bytes: a page
  put<T, kStream>(link, a0, a1, a2, a3, a4, a5, a6, a7);
  for (int i = 0; i < machine->moving; ++i) {
    machine->address[i] += machine->advance[i];
    if (kStream && i < machine->reading)
      for (int64_t line = 0; line < machine->advance[i]; line += 64) hwy::Prefetch(machine->address[i] + kAhead + line);
  }
  if (--machine->steps > 0) WEFT_TAIL_CALL machine->first->run(machine->first, machine, a0, a1, a2, a3, a4, a5, a6, a7);
}
template <class T>
Handler store_handler(bool last, bool stream) {
  if (last) return stream ? last_store<T, true> : last_store<T, false>;
  return stream ? store_block<T, true> : store_block<T, false>;
}
#undef WEFT_NEXT

// Returns from the program every so many steps: if a compiler did not turn the calls into jumps, the stack stays short.
HWY_INLINE void run_steps(Machine& machine, int64_t steps) {
  constexpr int64_t kMost = WEFT_STEPS_PER_CALL;
  const V zero = hn::Zero(D());
  for (; steps > 0; steps -= kMost) {
    machine.steps = steps < kMost ? steps : kMost;
    machine.first->run(machine.first, &machine, zero, zero, zero, zero, zero, zero, zero, zero);
  }
}

// ---- the table: which handler an instruction is

inline constexpr int kForms = 27, kExtra = 3 * kForms;  // the ops as they are, then fma with its signs

inline int handler_index(const expr::Instruction& in) {
  const int form = int(in.mode[0]) + 3 * int(in.mode[1]) + 9 * int(in.mode[2]), signs = int(in.minus_product) + 2 * int(in.minus_c);
  return form + kForms * (signs ? expr::kOps + signs - 1 : int(in.op));
}

template <int kIndex>
constexpr Handler handler_of() {
  constexpr int row = kIndex / kForms, signs = row < expr::kOps ? 0 : row - expr::kOps + 1;
  constexpr Op op = signs ? Op::fma : Op(row);
  constexpr Mode a = Mode(kIndex % 3), b = Mode(kIndex / 3 % 3), c = Mode(kIndex / 9 % 3);
  if constexpr (op >= Op::neg && op < Op::add && a != Mode::scalar && b == Mode::memory && c == Mode::accumulator)
    return unary_times<op, a>;
  else if constexpr (!expr::has_form(op, a, b, c))
    return nullptr;
  else if constexpr (op < Op::add)
    return unary<op, a>;
  else if constexpr (op < Op::fma)
    return binary<op, a, b>;
  else
    return ternary<op, signs, a, b, c>;
}
template <int... kIndex>
constexpr std::array<Handler, sizeof...(kIndex)> handlers_of(std::integer_sequence<int, kIndex...>) {
  return {handler_of<kIndex>()...};
}
inline constexpr auto kHandlers = handlers_of(std::make_integer_sequence<int, expr::kOps * kForms + kExtra>());

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
