// The epilogue of a matmul, shared by its kernels: f(alpha sum + beta C + bias) for pieces of rows.

#if defined(WEFT_OPS_MATMUL_CPU_FINISH_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_MATMUL_CPU_FINISH_H_
#undef WEFT_OPS_MATMUL_CPU_FINISH_H_
#else
#define WEFT_OPS_MATMUL_CPU_FINISH_H_
#endif

#include "weft/ops/matmul/matmul.h"
#include "weft/tile/cpu/activation.h"
#include "weft/tile/cpu/kernel.h"
#include "weft/tile/cpu/rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// A piece of a row of c: `columns` elements from (row, column) of matrix `batch`.
struct Piece {
  int64_t batch, row, column, columns;
};

template <class C>
class Finish {
 public:
  Finish(const MatmulArgs& args, const MatmulPlan& plan) : args_(args), plan_(plan) {}

  // True if a sum starts at beta C instead of adding it at the end.
  bool starts_at_c() const { return args_.alpha == 1 && args_.beta != 0; }

  // True if c is the sum itself, started at C or at 0.
  bool only_sums() const {
    return std::is_same_v<C, float> && args_.alpha == 1 && (args_.beta == 0 || args_.beta == 1) && !args_.bias && !args_.pre &&
           args_.activation == Activation::none;
  }
  float* c(Piece p) const { return reinterpret_cast<float*>(data<C>(args_.c) + at(plan_.c, p)); }  // if only_sums()

  bool aligned() const {  // every row of c is aligned to vectors
    const MatmulPlan::Matrix& m = plan_.c;
    return sizeof(C) == 4 && reinterpret_cast<uintptr_t>(data<C>(args_.c)) % 64 == 0 && m.row % 16 == 0 && m.outer % 16 == 0 &&
           m.inner % 16 == 0;
  }

  // sums = beta C.
  void start(Piece p, float* sums) const {
    const C* c = data<C>(args_.c) + at(plan_.c, p);
    const F32x16 beta = splat(args_.beta);
    for_each_block(p.columns, [&](At at) HWY_ATTR { at.store(beta * at.load(c), sums); });
  }

  // c = f(alpha sums + beta C + bias) for `rows` rows of pieces; `started`: the sums hold beta C already.
  void operator()(Piece p, int64_t rows, const float* sums, int64_t stride, bool started) const {
    with_activation(args_.activation, [&]<Activation kKind>() { finish<kKind>(p, rows, sums, stride, started); });
  }
  const char* place(Piece p) const { return reinterpret_cast<const char*>(data<C>(args_.c) + at(plan_.c, p)); }  // in c

 private:
  // Skips the divisions for the first matrix: every tile calls this.
  int64_t at(const MatmulPlan::Matrix& m, Piece p) const { return (p.batch ? plan_.offset(m, p.batch) : 0) + p.row * m.row + p.column; }

  template <Activation kKind>
  void finish(Piece p, int64_t rows, const float* sums, int64_t stride, bool started) const {
    C* c = data<C>(args_.c) + at(plan_.c, p);
    C* pre = args_.pre ? data<C>(args_.pre) + at(plan_.pre, p) : nullptr;
    const bool wide = args_.bias && args_.bias.dtype == DType::f32;
    const float* wide_bias = wide ? data<float>(args_.bias) + p.column : nullptr;
    const C* bias = args_.bias && !wide ? data<C>(args_.bias) + p.column : nullptr;
    const bool scaled = args_.alpha != 1, add_c = !started && args_.beta != 0;
    const F32x16 alpha = splat(args_.alpha), beta = splat(args_.beta);
    for (int64_t r = 0; r < rows; ++r, sums += stride, c += plan_.c.row, pre += pre ? plan_.pre.row : 0)
      for_each_block(p.columns, [=](At at) HWY_ATTR {
        F32x16 v = at.load(sums);
        if (add_c)
          v = scaled ? fma(alpha, v, beta * at.load(c)) : v + beta * at.load(c);
        else if (scaled)
          v = alpha * v;
        if (wide_bias) v = v + at.load(wide_bias);
        if (bias) v = v + at.load(bias);
        if (pre) at.store(v, pre);
        at.store(activate<kKind>(v), c);
      });
  }

  const MatmulArgs& args_;
  const MatmulPlan& plan_;
};

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
