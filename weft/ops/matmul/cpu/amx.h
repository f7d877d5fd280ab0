// Matmul of bf16 on AMX (weft/tile/cpu/amx.h): 32 x 32 of c at a time, four tiles.

#if defined(WEFT_OPS_MATMUL_CPU_AMX_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_MATMUL_CPU_AMX_H_
#undef WEFT_OPS_MATMUL_CPU_AMX_H_
#else
#define WEFT_OPS_MATMUL_CPU_AMX_H_
#endif

#include "weft/ops/matmul/cpu/finish.h"
#include "weft/tile/cpu/amx.h"
#include "weft/tile/cpu/gemm.h"
#include "weft/tile/cpu/scratch_slots.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

constexpr int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }
// n in equal parts of at most `most`, each rounded up to a multiple of `multiple`.
constexpr int64_t equal_parts(int64_t n, int64_t most, int64_t multiple) {
  return round_up(ceil_div(n, std::max<int64_t>(1, ceil_div(n, most))), multiple);
}

inline constexpr int64_t kPanel = 2 * kAmxRows;  // rows of A, columns of B: 2 x 2 tiles keep the unit busy

// Block sizes; none of them changes the bits of the result.
struct AmxBlocking {
  // Four tile multiplications, 64 cycles, load 2 KiB of B from L2, where a block of at most 1536 x 256 x 2 bytes = 768 KiB of it stays,
  // and share 2 KiB of A, which comes from further away once for all columns of the block: with 256 columns that is 4 bytes a cycle.
  // Sums between two K blocks are in L2 too: 512 x 128 x 4 bytes = 256 KiB. A task has at least 64 columns before its rows are cut.
  static constexpr int64_t kMostKBlock = 1536, kMostColumns = 256, kNarrow = 64;
  // Packing an element of B costs about a tenth of a cycle, multiplying it by a row of A 1/512: 256 rows make packing a fifth.
  static constexpr int64_t kMostRows = 1024, kLeastRows = 256;
  static constexpr int64_t kRowsOfSums = 512, kColumnsOfSums = 128;
  // Tasks for 16 threads; fewer if each would have less than 2^24 multiplications, 32 thousand cycles.
  static constexpr int64_t kLeastTasks = 12, kEnoughTasks = 24, kTask = int64_t(1) << 24;
  static constexpr int64_t kSmall = int64_t(1) << 20;  // multiplications: no more, 2 thousand cycles of one core, are one task
  static constexpr int64_t kMostA = int64_t(8) << 20;  // elements of A packed at a time: bounds the workspace to 16 MiB

  int64_t k_block, k_blocks;  // K in equal blocks of whole 32s
  int64_t group;              // matrices of the batch at a time
  int64_t slab_rows;          // rows of A packed at a time
  int64_t rows, columns;      // of a task's block of C

  explicit AmxBlocking(const MatmulPlan& p) {
    k_block = std::max<int64_t>(kAmxBlock, equal_parts(p.K, kMostKBlock, kAmxBlock));
    k_blocks = std::max<int64_t>(1, ceil_div(p.K, k_block));
    const int64_t padded = round_up(p.M, kPanel), K = k_blocks * k_block;
    group = std::clamp<int64_t>(kMostA / (padded * K), 1, p.batch());
    slab_rows = std::min(padded, std::max(kMostRows, kMostA / K / kMostRows * kMostRows));
    rows = equal_parts(slab_rows, k_blocks > 1 ? kRowsOfSums : kMostRows, kPanel);
    columns = equal_parts(p.N, k_blocks > 1 ? kColumnsOfSums : kMostColumns, kPanel);
    const int64_t work = group * p.M * p.N * K;
    if (work > kSmall) cut(p, std::clamp(work / kTask, kLeastTasks, kEnoughTasks));
  }

 private:
  void cut(const MatmulPlan& p, int64_t tasks) {
    const auto too_few = [&] { return group * ceil_div(slab_rows, rows) * ceil_div(p.N, columns) < tasks; };
    while (too_few() && columns > kNarrow) columns = round_up(columns / 2, kPanel);
    while (too_few() && rows >= 2 * kLeastRows) rows = round_up(rows / 2, kPanel);
    if (too_few()) columns = kPanel;
  }
};

template <class C>
class AmxMatmul {
 public:
  AmxMatmul(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan)
      : stream_(stream),
        args_(args),
        p_(plan),
        block_(plan),
        finish_(args, p_),
        a_(stream, block_.group * block_.slab_rows * block_.k_blocks * block_.k_block / 2),
        scratch_(stream, sums_size() + block_.columns * block_.k_block / 2) {}

  // Equation: c = f(alpha op(A) op(B) + beta C + bias).
  // Layout:   A, B, C row-major with any row stride; matrices of a batch at any distance. Packed, with zeros where the matrix ends:
  //           A in panels of 32 rows, [32 k][row][k]; B in panels of 32 columns, words [k / 2][column].
  // Order:    an element takes k in blocks of 32 from k = 0 on, as multiply_amx does, from beta C (or 0). Tasks are blocks of C.
  // Requires: unit-stride rows (the contract's). K = 0 gives f(beta C + bias).
  // Traffic:  A is packed once and read for each block of columns; B is packed once for each block of rows, by the task that uses
  //           it; C is written once (and read if beta is not 0), or once for each K block.
  void run() {
    for (int64_t batch = 0; batch < p_.batch(); batch += block_.group)
      for (int64_t row = 0; row < p_.M; row += block_.slab_rows) {
        const int64_t matrices = std::min(block_.group, p_.batch() - batch);
        slab_ = {row, std::min(block_.slab_rows, p_.M - row)};
        pack_a(batch, matrices);
        compute(batch, matrices);
      }
  }

 private:
  struct Range {
    int64_t first = 0, count = 0;
  };
  // A block of C: matrix `g` of the group, rows within the slab.
  struct Block {
    int64_t batch, g;
    Range rows, columns;
  };

  int64_t sums_stride() const { return block_.columns + kAmxColumns; }  // off the powers of two, where cache sets collide
  int64_t sums_size() const { return block_.k_blocks > 1 ? block_.rows * sums_stride() : 0; }
  int64_t elements(int64_t d) const { return std::min(block_.k_block, p_.K - d * block_.k_block); }
  int64_t blocks(int64_t d) const { return ceil_div(elements(d), kAmxBlock); }

  // The panel of A from `row` of the slab on, over K block d, of matrix `g` of the group.
  bf16* a_panel(int64_t g, int64_t d, int64_t row) const {
    const int64_t rows = round_up(slab_.count, kPanel);
    return reinterpret_cast<bf16*>(a_.data()) + ((g * block_.k_blocks + d) * rows + row) * block_.k_block;
  }

  void pack_a(int64_t batch, int64_t matrices) const {
    const int64_t at_once = kPanel * (args_.transpose_a ? 8 : std::max<int64_t>(1, 1024 / block_.k_block)),
                  groups = ceil_div(slab_.count, at_once);
    parallel_for(matrices * block_.k_blocks * groups, threads(stream_), [&](int64_t task) HWY_ATTR {
      const int64_t g = task / groups / block_.k_blocks, d = task / groups % block_.k_blocks, first = task % groups * at_once,
                    last = std::min(slab_.count, first + at_once);
      const int64_t k = d * block_.k_block, row = slab_.first + first, step = p_.a.row;
      const bf16* a = data<bf16>(args_.a) + p_.offset(p_.a, batch + g) + (args_.transpose_a ? k * step + row : row * step + k);
      if (args_.transpose_a) return pack_columns_of_a(a, {first, last - first}, elements(d), a_panel(g, d, first));
      for (int64_t i = first; i < last; i += kPanel)
        pack_rows_of_a(a + (i - first) * step, std::min(kPanel, last - i), elements(d), a_panel(g, d, i));
    });
  }
  void pack_rows_of_a(const bf16* a, int64_t rows, int64_t K, bf16* panel) const {
    for (int64_t i = 0; i < kPanel; ++i)
      for (int64_t k = 0; k < K; k += kAmxBlock) {
        bf16* to = panel + k * kPanel + i * kAmxBlock;
        const bf16* from = a + i * p_.a.row + k;
        if (i < rows && K - k >= kAmxBlock)
          std::memcpy(to, from, kAmxBlock * sizeof(bf16));
        else
          for (int64_t n = 0; n < kAmxBlock; ++n) to[n] = i < rows && k + n < K ? from[n] : bf16(0.0f);
      }
  }
  // Packs panels side by side, 32 k of all of them at a time, by whole cache lines, as words that are then transposed.
  void pack_columns_of_a(const bf16* a, Range rows, int64_t K, bf16* panels) const {
    alignas(64) float words[kAmxBlock / 2 * kPanel];
    for (int64_t k = 0; k < K; k += kAmxBlock) {
      prefetch_lines(a + (k + kAmxBlock) * p_.a.row, p_.a.row, std::min<int64_t>(kAmxBlock, K - k - kAmxBlock), rows.count);
      for (int64_t i = 0; i < rows.count; i += kPanel) {
        pack_words(a + k * p_.a.row + i, p_.a.row, std::min(kPanel, rows.count - i), std::min<int64_t>(kAmxBlock, K - k), words);
        float* panel = reinterpret_cast<float*>(panels + i * block_.k_block + k * kPanel);
        for (int64_t half = 0; half < 2; ++half)
          pack_along_k<WidenedWords<float>, kAmxRows>(words + half * kAmxRows, kPanel, kAmxRows, kAmxBlock / 2,
                                                      panel + half * kAmxRows * kAmxBlock / 2);
      }
    }
  }
  // words[k / 2][line] of up to 32 lines that are side by side in memory for each k, zeros up to a whole block.
  static void pack_words(const bf16* from, int64_t step, int64_t lines, int64_t K, float* words) {
    pack_across_k<PairedWords, kPanel>(from, step, lines, K, words);
    fill_up(K, words);
  }
  static void fill_up(int64_t K, float* words) {
    for (int64_t w = ceil_div(K, 2); w < ceil_div(K, kAmxBlock) * kAmxBlock / 2; ++w) std::fill_n(words + w * kPanel, kPanel, 0.0f);
  }
  // The hardware prefetcher does not recognize a few lines of each of some k.
  static void prefetch_lines(const bf16* from, int64_t step, int64_t steps, int64_t columns) {
    for (int64_t k = 0; k < steps; ++k)
      for (int64_t i = 0; i < columns; i += 64 / int64_t(sizeof(bf16))) __builtin_prefetch(from + k * step + i, 0, 2);
  }

  // Packs all panels of a block of B over K block d.
  void pack_b(const Block& block, int64_t d, float* packed) const {
    const int64_t K = elements(d), k = d * block_.k_block, row = p_.b.row, columns = block.columns.count, panel = blocks(d) * kAmxBlock / 2;
    const bf16* b = data<bf16>(args_.b) + p_.offset(p_.b, block.batch) +
                    (args_.transpose_b ? block.columns.first * row + k : k * row + block.columns.first);
    const auto lines = [=](int64_t j) { return std::min(kPanel, columns - j); };
    if (args_.transpose_b) {
      for (int64_t j = 0; j < columns; j += kPanel) {
        pack_along_k<PairedWords, kPanel>(b + j * row, row, lines(j), K, packed + j * panel);
        fill_up(K, packed + j * panel);
      }
      return;
    }
    for (int64_t s = 0; s < K; s += kAmxBlock) {
      prefetch_lines(b + (s + kAmxBlock) * row, row, std::min<int64_t>(kAmxBlock, K - s - kAmxBlock), columns);
      for (int64_t j = 0; j < columns; j += kPanel)
        pack_words(b + s * row + j, row, lines(j), std::min<int64_t>(kAmxBlock, K - s), packed + j * panel + s / 2 * kPanel);
    }
  }

  void compute(int64_t batch, int64_t matrices) const {
    const int64_t across = ceil_div(p_.N, block_.columns), down = ceil_div(slab_.count, block_.rows);
    parallel_for(matrices * across * down, threads(stream_), [&](int64_t task) HWY_ATTR {
      const int64_t g = task / down / across, row = task % down * block_.rows, column = task / down % across * block_.columns;
      compute({batch + g, g, {row, std::min(block_.rows, slab_.count - row)}, {column, std::min(block_.columns, p_.N - column)}});
    });
  }
  void compute(const Block& block) const {
    ScratchSlots::Lease lease(scratch_);
    float *sums = lease.take(sums_size()), *packed = lease.take(block_.columns * block_.k_block / 2);
    const AmxTiles in_use;
    for (int64_t d = 0; d < block_.k_blocks; ++d) {
      pack_b(block, d, packed);
      for (int64_t i = 0; i < block.rows.count; i += kPanel)
        for (int64_t j = 0; j < block.columns.count; j += kPanel) multiply(block, d, i, j, packed, sums);
    }
    if (non_temporal_) hwy::FlushStream();
  }

  // Multiplies 32 x 32 of C from row i and column j of the block on. Whole tiles without an epilogue are summed in c itself.
  void multiply(const Block& block, int64_t d, int64_t i, int64_t j, const float* packed, float* sums) const {
    const int64_t rows = std::min(kPanel, block.rows.count - i), columns = std::min(kPanel, block.columns.count - j);
    const bool started = finish_.starts_at_c(), first = d == 0, last = d + 1 == block_.k_blocks;
    const auto piece = [&](int64_t r, int64_t c = 0) {
      return Piece{block.batch, slab_.first + block.rows.first + i + r, block.columns.first + j + c, columns};
    };
    AmxMatmulArgs p{round_up(rows, kAmxRows),
                    round_up(columns, kAmxColumns),
                    blocks(d),
                    a_panel(block.g, d, block.rows.first + i),
                    kAmxBlock,
                    kPanel * kAmxBlock,
                    packed + j * blocks(d) * kAmxBlock / 2,
                    kPanel,
                    nullptr,
                    0,
                    nullptr,
                    0};
    if (last && !non_temporal_)
      p.ahead = finish_.place(j + kPanel < block.columns.count ? piece(0, kPanel) : piece(kPanel, -j)),
      p.ahead_row = p_.c.row * int64_t(sizeof(C));
    if (finish_.only_sums() && !non_temporal_ && p.rows == rows && p.columns == columns) {
      p.c = finish_.c(piece(0)), p.c_row = p_.c.row;
      if (!first || started) p.from = p.c, p.from_row = p.c_row;
      return multiply_amx(p);
    }
    alignas(64) float tile[kPanel * kPanel];
    float* partial = block_.k_blocks > 1 ? sums + i * sums_stride() + j : tile;
    const int64_t stride = block_.k_blocks > 1 ? sums_stride() : kPanel;
    if (first && started)
      for (int64_t r = 0; r < rows; ++r) finish_.start(piece(r), partial + r * stride);
    if (!first || started) p.from = partial, p.from_row = stride;
    p.c = last ? tile : partial, p.c_row = last ? kPanel : stride;
    multiply_amx(p);
    if (!last) return;
    if (non_temporal_ && finish_.only_sums() && columns == kPanel)
      store_non_temporal(tile, rows, finish_.c(piece(0)));
    else
      finish_(piece(0), rows, tile, kPanel, started);
  }
  void store_non_temporal(const float* tile, int64_t rows, float* c) const {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < kPanel; j += kLanes) hn::Stream(hn::LoadU(D(), tile + r * kPanel + j), D(), c + r * p_.c.row + j);
  }

  Stream& stream_;
  const MatmulArgs& args_;
  const MatmulPlan p_;
  const AmxBlocking block_;
  const Finish<C> finish_;
  const bool non_temporal_ = finish_.aligned() && p_.batch() * p_.M * p_.N * int64_t(sizeof(C)) >= kOutOfCache;
  const Scratch<float> a_;
  mutable ScratchSlots scratch_;
  Range slab_;  // the rows of A packed at present
};

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
