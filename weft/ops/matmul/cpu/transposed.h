// Some rows of A times B transposed, such as prompts times weights: computed as its transpose, B A^T, so that B, the larger, is read
// as stored and never packed.

#if defined(WEFT_OPS_MATMUL_CPU_TRANSPOSED_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_MATMUL_CPU_TRANSPOSED_H_
#undef WEFT_OPS_MATMUL_CPU_TRANSPOSED_H_
#else
#define WEFT_OPS_MATMUL_CPU_TRANSPOSED_H_
#endif

#include "weft/ops/matmul/cpu/finish.h"
#include "weft/tile/cpu/gemm.h"
#include "weft/tile/cpu/scratch_slots.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

class TransposedMatmul {
 public:
  // Packing an element of B costs half a cycle, multiplying it by a row of A 1/32 of one: packing is an eighth of the time with 128
  // rows, and a sixteenth with 256, where packing A and transposing C cost as much. Below 32 rows, two vectors of sums, there are too
  // few independent chains of fmas.
  static constexpr int64_t kLeastRows = 32, kMostRows = 128;
  static constexpr int64_t kMostA = int64_t(3) << 16;  // floats of packed A, 768 KiB: they stay in L2 while rows of B are read
  static constexpr int64_t kGroup = 48;                // columns of C: whole tiles of six and whole lines of sixteen

  static bool applies(const MatmulArgs& args, const MatmulPlan& p) {
    const bool starts_at_c = args.alpha == 1 && args.beta != 0;
    // Whole panels, or one: a second panel of fewer vectors takes as many loads for fewer fmas, and loses what packing costs.
    const bool panels_filled = p.M <= kTileColumns || p.M % kTileColumns == 0;
    return !args.transpose_a && args.transpose_b && p.batch() == 1 && p.M >= kLeastRows && p.M <= kMostRows && panels_filled &&
           p.N >= 2 * kGroup && p.K > 0 && ceil_div(p.M, kTileColumns) * kTileColumns * p.K <= kMostA && !starts_at_c;
  }

  TransposedMatmul(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan)
      : stream_(stream),
        args_(args),
        p_(plan),
        finish_(args, p_),
        panels_(ceil_div(plan.M, kTileColumns)),
        width_(ceil_div(ceil_div(plan.M, panels_), kLanes) * kLanes),
        a_(stream, panels_ * kTileColumns * plan.K),
        scratch_(stream, (panels_ + 1) * kTileColumns * kGroup, ceil_div(plan.N, kGroup)) {}

  // Equation: c = f(alpha A B^T + bias), or with beta C added at the end.
  // Layout:   A [M, K] packed whole, a panel for `width_` of its rows; B [N, K] as stored; tiles of the transpose in scratch [N, M].
  // Order:    an element takes k in turn, one fma each, from 0: the chain of every other matmul. A task is a group of columns of C.
  // Requires: applies(); unit-stride rows.
  // Traffic:  A, B and C once, A again from L2 for every six rows of B.
  void run() {
    constexpr int64_t kPiece = 192;  // of K: several threads pack one panel
    const int64_t pieces = ceil_div(p_.K, kPiece);
    parallel_for(panels_ * pieces, threads(stream_), [&](int64_t task) HWY_ATTR {
      const int64_t j = task / pieces * width_, k = task % pieces * kPiece;
      pack_along_k<WidenedWords<float>, kTileColumns>(data<float>(args_.a) + j * p_.a.row + k, p_.a.row, columns(j),
                                                      std::min(kPiece, p_.K - k), panel(j) + k * kTileColumns);
    });
    parallel_for(ceil_div(p_.N, kGroup), threads(stream_),
                 [&](int64_t task) { compute(task * kGroup, std::min(kGroup, p_.N - task * kGroup)); });
  }

 private:
  float* panel(int64_t j) const { return a_.data() + j / width_ * kTileColumns * p_.K; }
  int64_t columns(int64_t j) const { return std::min(width_, p_.M - j); }  // of the transpose
  const float* b_row(int64_t n) const { return data<float>(args_.b) + std::min(n, p_.N - 1) * p_.b.row; }

  // Columns [n, n + count) of c.
  void compute(int64_t n, int64_t count) const {
    ScratchSlots::Lease lease(scratch_);
    float *tiles = lease.take(panels_ * kTileColumns * kGroup), *transposed = lease.take(kTileColumns * kGroup);
    for (int64_t i = 0; i < count; i += kTileRows)
      for (int64_t j = 0, tile = 0; j < p_.M; j += width_, ++tile) {
        const Sums to{nullptr, 0, tiles + (tile * kGroup + i) * kTileColumns, kTileColumns};
        multiply_tile<FmaStep>({std::min<int64_t>(kTileRows, count - i), columns(j), p_.K, b_row(n + i), panel(j), p_.b.row, to},
                               ahead(n, i, j, tile));
      }
    for (int64_t j = 0, tile = 0; j < p_.M; j += width_, ++tile) {
      pack_along_k<WidenedWords<float>, kGroup>(tiles + tile * kGroup * kTileColumns, kTileColumns, count, columns(j), transposed);
      store(Piece{0, j, n, count}, columns(j), transposed);
    }
    if (non_temporal_) hwy::FlushStream();
  }

  // The first tile prefetches four of the six rows of B below, the second two; each prefetches eight rows of C of this group.
  Prefetch ahead(int64_t n, int64_t i, int64_t j, int64_t tile) const {
    const char* below = reinterpret_cast<const char*>(b_row(n + i + kTileRows + (tile == 0 ? 0 : 4)));
    Prefetch soon{below, 0, below, tile < 2 ? p_.b.row * int64_t(sizeof(float)) : 0, below, 0};
    constexpr int64_t kRowsEach = 8, kGroupLines = kGroup / 16;
    const int64_t row = j + i / kTileRows * kRowsEach;
    if (non_temporal_ || row + kRowsEach > p_.M) return soon;
    soon.c = finish_.place({0, row, n, 0}), soon.c_row = p_.c.row * int64_t(sizeof(float));
    for (int64_t r = kTileRows; r < kRowsEach; ++r)
      for (int64_t line = 0; line < kGroupLines; ++line) __builtin_prefetch(soon.c + r * soon.c_row + line * 64, 1, 2);
    return soon;
  }

  void store(Piece piece, int64_t rows, const float* transposed) const {
    if (!non_temporal_ || piece.columns < kGroup) return finish_(piece, rows, transposed, kGroup, false);
    float* c = finish_.c(piece);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < kGroup; j += kLanes) hn::Stream(hn::LoadU(D(), transposed + r * kGroup + j), D(), c + r * p_.c.row + j);
  }

  Stream& stream_;
  const MatmulArgs& args_;
  const MatmulPlan p_;
  const Finish<float> finish_;
  const int64_t panels_, width_;
  const bool non_temporal_ = finish_.only_sums() && finish_.aligned() && p_.M * p_.N * int64_t(sizeof(float)) >= kOutOfCache;
  const Scratch<float> a_;
  mutable ScratchSlots scratch_;
};

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
