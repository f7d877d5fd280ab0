// Skinny matmul of bf16 on AMX (weft/tile/cpu/amx.h), in the order of AmxMatmul: K blocks of 32. B transposed is the left factor, whose
// tiles are rows as stored; B as stored is the right one, packed 32 columns at a time.

#if defined(WEFT_OPS_MATMUL_CPU_SKINNY_AMX_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_MATMUL_CPU_SKINNY_AMX_H_
#undef WEFT_OPS_MATMUL_CPU_SKINNY_AMX_H_
#else
#define WEFT_OPS_MATMUL_CPU_SKINNY_AMX_H_
#endif

#include "weft/ops/matmul/cpu/finish.h"
#include "weft/tile/cpu/amx.h"
#include "weft/tile/cpu/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// The rows of A twice, zeros up to sixteen rows and whole K blocks: rows along k, [16][K], and words [K / 2][16]. One set for each matrix
// of a batch, or one in all if they share B.
class SkinnyAmxRows {
 public:
  static int64_t padded(int64_t K) { return ceil_div(K, kAmxBlock) * kAmxBlock; }
  static int64_t floats(int64_t K) { return 2 * (kAmxRows * padded(K) / 2); }

  SkinnyAmxRows(Stream& stream, const MatmulArgs& args) : p_(plan(args)), x_(stream, sets() * floats(p_.K)) {
    std::fill_n(x_.data(), sets() * floats(p_.K), 0.0f);
    for (int64_t batch = 0; batch < p_.batch(); ++batch) {
      const bf16* a = weft::data<bf16>(args.a) + p_.offset(p_.a, batch);
      bf16* rows = reinterpret_cast<bf16*>(x_.data() + (p_.shared_b ? 0 : batch * floats(p_.K)));
      bf16* words = rows + kAmxRows * padded(p_.K);
      for (int64_t r = 0; r < p_.M; ++r)
        for (int64_t k = 0, at = p_.shared_b ? batch * p_.M + r : r; k < p_.K; ++k) {
          const bf16 value = args.transpose_a ? a[k * p_.a.row + r] : a[r * p_.a.row + k];
          rows[at * padded(p_.K) + k] = value;
          words[(k / 2 * kAmxColumns + at) * 2 + k % 2] = value;
        }
    }
  }
  const float* data() const { return x_.data(); }

 private:
  int64_t sets() const { return p_.shared_b ? 1 : p_.batch(); }

  const MatmulPlan p_;
  const Scratch<float> x_;
};

// One matmul, cut into runs of 32 columns; x: of SkinnyAmxRows.
template <class C>
class SkinnyAmxMatmul {
 public:
  SkinnyAmxMatmul(const MatmulArgs& args, const float* x) : args_(args), p_(plan(args)), finish_(args_, p_), x_(x) {}
  int64_t tasks() const { return (p_.shared_b ? 1 : p_.batch()) * runs(); }

  void run(int64_t task) const {
    const int64_t job = task / runs(), first = task % runs() * kRun, columns = std::min(kRun, p_.N - first);
    const int64_t rows = p_.shared_b ? p_.batch() * p_.M : p_.M;
    const bf16* b = data<bf16>(args_.b) + p_.offset(p_.b, job) + first * (args_.transpose_b ? p_.b.row : 1);
    const bf16* x = reinterpret_cast<const bf16*>(x_ + job * SkinnyAmxRows::floats(p_.K));
    const bool started = finish_.starts_at_c();
    const auto piece = [&](int64_t r) { return Piece{p_.shared_b ? r / p_.M : job, p_.shared_b ? r % p_.M : r, first, columns}; };
    alignas(64) float sums[kAmxRows * kRun] = {};
    if (started)
      for (int64_t r = 0; r < rows; ++r) finish_.start(piece(r), sums + r * kRun);
    const AmxTiles in_use;
    args_.transpose_b ? multiply_lines(x, rows, b, columns, sums) : multiply_columns(x, b, columns, sums);
    for (int64_t r = 0; r < rows; ++r) finish_(piece(r), 1, sums + r * kRun, 0, started);
  }

 private:
  static constexpr int64_t kRun = 2 * kAmxColumns;
  static constexpr int64_t kPiece = 8 * kAmxBlock;  // of K, packed at a time: 16 KiB

  int64_t runs() const { return ceil_div(p_.N, kRun); }

  // The transpose, B x^T: 32 rows of B as stored; the last k and the last rows are copied.
  void multiply_lines(const bf16* x, int64_t rows, const bf16* b, int64_t columns, float* sums) const {
    alignas(64) float tile[kRun * kAmxColumns];
    for (int64_t n = 0; n < kRun; ++n)
      for (int64_t r = 0; r < kAmxColumns; ++r) tile[n * kAmxColumns + r] = sums[r * kRun + n];
    const float* words = reinterpret_cast<const float*>(x + kAmxRows * SkinnyAmxRows::padded(p_.K));
    const auto multiply = [&](const bf16* lines, int64_t step, int64_t k, int64_t blocks) {
      if (blocks > 0)
        multiply_amx({kRun, kAmxColumns, blocks, lines, step, kAmxBlock, words + k / 2 * kAmxColumns, kAmxColumns, tile, kAmxColumns, tile,
                      kAmxColumns});
    };
    const int64_t whole = columns == kRun ? p_.K / kAmxBlock * kAmxBlock : 0;
    multiply(b, p_.b.row, 0, whole / kAmxBlock);
    for (int64_t k = whole; k < p_.K; k += kPiece) {
      alignas(64) bf16 lines[kRun * kPiece];
      const int64_t count = std::min(kPiece, p_.K - k);
      for (int64_t n = 0; n < kRun; ++n)
        for (int64_t i = 0; i < kPiece; ++i) lines[n * kPiece + i] = n < columns && i < count ? b[n * p_.b.row + k + i] : bf16(0.0f);
      multiply(lines, kPiece, k, ceil_div(count, kAmxBlock));
    }
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t n = 0; n < kRun; ++n) sums[r * kRun + n] = tile[n * kAmxColumns + r];
  }

  void multiply_columns(const bf16* x, const bf16* b, int64_t columns, float* sums) const {
    alignas(64) float words[kPiece / 2 * kRun];
    for (int64_t k = 0; k < p_.K; k += kPiece) {
      const int64_t count = std::min(kPiece, p_.K - k), blocks = ceil_div(count, kAmxBlock);
      pack_across_k<PairedWords, int(kRun)>(b + k * p_.b.row, p_.b.row, columns, count, words);
      std::fill(words + ceil_div(count, 2) * kRun, words + blocks * kAmxBlock / 2 * kRun, 0.0f);
      multiply_amx({kAmxRows, kRun, blocks, x + k, SkinnyAmxRows::padded(p_.K), kAmxBlock, words, kRun, sums, kRun, sums, kRun});
    }
  }

  const MatmulArgs& args_;
  const MatmulPlan p_;
  const Finish<C> finish_;
  const float* x_;
};

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
