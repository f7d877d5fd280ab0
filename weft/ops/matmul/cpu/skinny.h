// Skinny matmul, at most four rows: one token or a few times a whole weight. Reading B is the bound, so B is read once, in its own
// dtype, and never packed.

#if defined(WEFT_OPS_MATMUL_CPU_SKINNY_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_MATMUL_CPU_SKINNY_H_
#undef WEFT_OPS_MATMUL_CPU_SKINNY_H_
#else
#define WEFT_OPS_MATMUL_CPU_SKINNY_H_
#endif

#include <optional>
#include <span>

#include "weft/ops/matmul/cpu/finish.h"
#include "weft/ops/matmul_group/matmul_group.h"
#include "weft/tile/cpu/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// sums[j] += x[0] b[0][j], then x[1] b[1][j], ... kSteps rows of B at a time, so that a sum is loaded and stored once
// for several.
template <int kSteps, class T>
HWY_INLINE void add_steps(const float* x, const T* b, int64_t row, int64_t columns, float* sums) {
  for_each_block(columns, [&](At at) HWY_ATTR {
    F32x16 s = at.load(sums);
    for (int k = 0; k < kSteps; ++k) s = fma(splat(x[k]), at.load(b + k * row), s);
    at.store(s, sums);
  });
}

// Rows of A as f32, [rows][K]; the matrices of a batch in order.
template <class T>
void widen_rows(Stream& stream, const MatmulArgs& args, const MatmulPlan& p, float* x) {
  parallel_for(p.batch(), threads(stream), [&](int64_t batch) HWY_ATTR {
    const T* a = data<T>(args.a) + p.offset(p.a, batch);
    for (int64_t r = 0; r < p.M; ++r) {
      float* to = x + (batch * p.M + r) * p.K;
      if (args.transpose_a)
        for (int64_t k = 0; k < p.K; ++k) to[k] = float(a[k * p.a.row + r]);
      else
        for_each_block(p.K, [&](At at) HWY_ATTR { at.store(at.load(a + r * p.a.row), to); });
    }
  });
}

// One matmul, cut into runs of columns; x: its rows of A as f32.
template <class T, class C>
class SkinnyMatmul {
 public:
  SkinnyMatmul(const MatmulArgs& args, const float* x) : args_(args), p_(plan(args)), finish_(args_, p_), x_(x) {
    // B transposed: a dot product reads K elements a column, and a run of columns some 16 Ki, so that no thread waits long for the
    // last run. B as stored: 32 runs, of whole cache lines in either dtype.
    constexpr int64_t kElementsOfRun = 16384, kRuns = 32, kColumnsOfDots = 16, kColumnsOfLines = 64;
    const int64_t wanted = args.transpose_b ? kElementsOfRun / std::max<int64_t>(1, p_.K) : ceil_div(p_.N, kRuns),
                  whole = args.transpose_b ? kColumnsOfDots : kColumnsOfLines;
    run_ = std::clamp<int64_t>(ceil_div(wanted, whole) * whole, whole, kMostColumns);
    runs_ = ceil_div(p_.N, run_);
  }
  int64_t tasks() const { return (p_.shared_b ? 1 : p_.batch()) * runs_; }

  void run(int64_t task) const {
    const int64_t job = task / runs_, first = task % runs_ * run_, columns = std::min(run_, p_.N - first);
    const int64_t rows = p_.shared_b ? p_.batch() * p_.M : p_.M;
    const T* b = data<T>(args_.b) + p_.offset(p_.b, job) + first * (args_.transpose_b ? p_.b.row : 1);
    const float* a = x_ + job * rows * p_.K;
    const bool started = finish_.starts_at_c() && !args_.transpose_b;
    const auto piece = [&](int64_t r) { return Piece{p_.shared_b ? r / p_.M : job, p_.shared_b ? r % p_.M : r, first, columns}; };
    alignas(64) float sums[MatmulArgs::kSkinnyRows][kMostColumns];
    if (args_.transpose_b) {
      for (int64_t j = 0; j < columns; ++j)
        for (int64_t r = 0; r < rows; ++r) sums[r][j] = row_dot(p_.K, a + r * p_.K, b + j * p_.b.row, kAhead / int64_t(sizeof(T)));
    } else {
      for (int64_t r = 0; r < rows; ++r) {
        if (started)
          finish_.start(piece(r), sums[r]);
        else
          std::memset(sums[r], 0, size_t(columns) * sizeof(float));
      }
      int64_t k = 0;
      for (; k + kSteps <= p_.K; k += kSteps)
        for (int64_t r = 0; r < rows; ++r) add_steps<kSteps>(a + r * p_.K + k, b + k * p_.b.row, p_.b.row, columns, sums[r]);
      for (; k < p_.K; ++k)
        for (int64_t r = 0; r < rows; ++r) add_steps<1>(a + r * p_.K + k, b + k * p_.b.row, p_.b.row, columns, sums[r]);
    }
    for (int64_t r = 0; r < rows; ++r) finish_(piece(r), 1, sums[r], 0, started);
  }

 private:
  static constexpr int64_t kMostColumns = 1024;  // four rows of sums are 16 KiB: they stay in L1
  static constexpr int64_t kSteps = 8;           // rows of B for each load and store of a sum
  static constexpr int64_t kAhead = 6144;        // bytes, 1.5 pages: the hardware prefetcher stops at the end of a page

  const MatmulArgs& args_;
  const MatmulPlan p_;
  const Finish<C> finish_;
  const float* x_;
  int64_t run_, runs_;
};

// Equation: c = f(alpha op(A) op(B) + beta C + bias) for M <= 4, of each member of a group that shares A.
// Layout:   A, B, C row-major with any row stride; matrices of a batch at any distance.
// Order:    B as stored: k in turn from beta C (or 0), one fma each. B transposed: row_dot's tree, then beta C.
//           Tasks are runs of columns, their length by N and K alone; those of a member follow those of the member before.
// Requires: 1 to MatmulGroupArgs::kMost members; at most kSkinnyRows rows for one B. K = 0 gives f(beta C + bias).
// Traffic:  one read of A and B, one write of C (and one read where beta is not 0).
template <class T, class C>
void multiply_skinny(Stream& stream, std::span<const MatmulArgs> group) {
  const MatmulPlan p = plan(group.front());
  const Scratch<float> x(stream, p.batch() * p.M * p.K);
  widen_rows<T>(stream, group.front(), p, x.data());
  std::optional<SkinnyMatmul<T, C>> members[MatmulGroupArgs::kMost];
  int64_t before[MatmulGroupArgs::kMost], tasks = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    before[i] = tasks;
    tasks += members[i].emplace(group[i], x.data()).tasks();
  }
  parallel_for(tasks, threads(stream), [&](int64_t task) HWY_ATTR {
    size_t i = group.size() - 1;
    while (before[i] > task) --i;
    members[i]->run(task - before[i]);
  });
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
