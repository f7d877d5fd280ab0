#include "weft/ops/matmul/matmul.h"
#include "weft/tile/cpu/scratch_slots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/matmul/cpu/matmul.cpp"
#include <hwy/foreach_target.h>

#include "weft/ops/matmul/cpu/packed_blocks.h"
#include "weft/ops/matmul/cpu/skinny.h"
#include "weft/ops/matmul/cpu/amx.h"
#include "weft/ops/matmul/cpu/transposed.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

// Block sizes; none of them changes the bits of the result.
struct Blocking {
  // A block of B, `columns` by `k_block`, is packed by the task that uses it and stays in L2 (96 Ki floats, 384 KiB) while the panels of
  // A, at most 768 x 6 x 4 bytes = 18 KiB each, stream through L1: a tile streams its panel of B from L2, and 64 columns x 4 bytes in the
  // 12 cycles of a step are a third of L2's bandwidth. Measured: K blocks of 384, 512 or 1536 are no faster, 128 or 192 have 0.88
  // to 0.94 of the speed.
  static constexpr int64_t kMostKBlock = 768, kBlockElements = int64_t(96) << 10, kMostColumns = 256, kNarrow = 64;
  // At least 32 tasks, two for each of 16 threads. Packing an element of B costs a fraction of a cycle and multiplying it by a row of A
  // 1/32, so a task keeps 192 rows or more; 256 as long as it has columns to cut.
  static constexpr int64_t kLeastTasks = 32, kLeastRows = 192, kRowsBeforeColumns = kLeastRows + 64;
  static constexpr int64_t kSmall = int64_t(1) << 18;   // multiplications: no more, 8 thousand cycles of one core, are one task
  static constexpr int64_t kMostA = int64_t(16) << 20;  // floats of A packed at a time: bounds the workspace to 64 MiB

  int64_t k_block, k_blocks;  // K in equal blocks
  int64_t group;              // matrices of the batch at a time
  int64_t slab_rows;          // rows of A packed at a time
  int64_t rows, columns;      // of a block of C
  int64_t span;               // blocks side by side in a task
  bool halve_last = false;    // tasks of the last columns have half the rows: two threads share an odd task

  explicit Blocking(const MatmulPlan& p) {
    k_blocks = std::max<int64_t>(1, ceil_div(p.K, kMostKBlock));
    k_block = round_up(ceil_div(p.K, k_blocks), 4);
    const int64_t K = std::max<int64_t>(1, p.K), padded = round_up(p.M, kTileRows);
    group = std::clamp<int64_t>(kMostA / (padded * K), 1, p.batch());
    slab_rows = std::min(padded, std::max<int64_t>(kTileRows, kMostA / K / kTileRows * kTileRows));
    rows = slab_rows;
    columns = std::clamp<int64_t>(kBlockElements / std::max<int64_t>(1, k_block) / kTileColumns * kTileColumns, kTileColumns, kMostColumns);
    span = 1;
    if (group * p.M * p.N * K > kSmall) cut(p);
  }

 private:
  int64_t tasks(const MatmulPlan& p) const { return group * ceil_div(slab_rows, rows) * ceil_div(p.N, columns); }
  void halve_rows() { rows = round_up(ceil_div(rows, 2), kTileRows); }

  void cut(const MatmulPlan& p) {
    while (tasks(p) < kLeastTasks && rows >= 2 * kRowsBeforeColumns) halve_rows();
    while (tasks(p) < kLeastTasks && columns > kNarrow) columns = round_up(columns / 2, kTileColumns);
    while (tasks(p) < kLeastTasks && rows >= 2 * kLeastRows) halve_rows();
    halve_last = group == 1 && tasks(p) < kLeastTasks && tasks(p) % 2 == 1 && rows >= 2 * kTileRows;
    span = std::clamp<int64_t>(tasks(p) / kLeastTasks, 1, ceil_div(p.N, columns));
  }
};

template <class Words, class C>
class PackedMatmul {
  using T = typename Words::Element;

 public:
  PackedMatmul(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan)
      : stream_(stream),
        args_(args),
        p_(plan),
        block_(plan),
        finish_(args, p_),
        as_stored_(std::is_same_v<Words, WidenedWords<float>> && !args.transpose_a && plan.a.row != 0),
        by_k_block_(block_.k_blocks > 1 && finish_.only_sums() && plan.N % kLanes == 0 &&
                    (as_stored_ ? packs_b_again() && 2 * plan.N <= plan.K : 4 * plan.N <= 3 * plan.K)),
        a_(stream, as_stored_ ? 0 : block_.group * block_.slab_rows * words(by_k_block_ ? block_.k_block : plan.K)),
        scratch_(stream, sums_size() + buffers_ * packed_size()),
        held_(scratch_.size()) {}

  // Equation: c = f(alpha op(A) op(B) + beta C + bias).
  // Layout:   A, B, C row-major with any row stride; matrices of a batch at any distance. Packed: gemm.h's panels, K block by
  //           K block.
  // Order:    an element takes k in turn, one fma each, from beta C (or 0), across all K blocks; see multiply_panels.
  //           Tasks are blocks of C, their extents by the shape alone.
  // Requires: unit-stride rows (the contract's). K = 0 gives f(beta C + bias).
  // Traffic:  A is read for each block of columns, as stored if it is f32 and not transposed, else packed once before; B is
  //           read by the task that uses it, unless its thread has just packed it for the rows above; C is written once (and read if
  //           beta is not 0), or once for each K block.
  void run() {
    for (int64_t batch = 0; batch < p_.batch(); batch += block_.group) {
      matrices_ = std::min(block_.group, p_.batch() - batch);
      for (int64_t row = 0; row < p_.M; row += block_.slab_rows) {
        a_rows_ = {row, std::min(block_.slab_rows, p_.M - row)};
        for (int64_t d = 0; d < block_.k_blocks; d += k_range_.count) {
          k_range_ = {d, by_k_block_ ? 1 : block_.k_blocks};
          if (!as_stored_) pack_a(batch);
          compute(batch);
        }
      }
    }
  }

 private:
  struct Range {
    int64_t first = 0, count = 0;
  };
  struct Task {
    int64_t g;  // matrix of the group
    Range rows, columns;
  };

  // True if a thread's two buffers hold fewer than all K blocks: a task then finds none that the task above has packed.
  bool packs_b_again() const { return block_.k_blocks > 2 && block_.rows < p_.M; }
  int64_t sums_stride() const { return block_.columns + kBlock; }  // off the powers of two, where cache sets collide
  int64_t sums_size() const { return block_.k_blocks > 1 ? block_.rows * sums_stride() : 0; }
  int64_t packed_size() const { return block_.columns * words(block_.k_block); }
  static int64_t words(int64_t elements) { return ceil_div(elements, Words::kElements); }
  int64_t elements(int64_t d) const { return std::min(block_.k_block, p_.K - d * block_.k_block); }
  int64_t steps(int64_t d) const { return words(elements(d)); }

  // Panels of matrix `g` of the group over K block d, from panel `panel` on.
  float* a_panel(int64_t g, int64_t d, int64_t panel) const {
    const int64_t before = by_k_block_ ? g * words(block_.k_block) : g * words(p_.K) + words(d * block_.k_block);
    return a_.data() + before * round_up(a_rows_.count, kTileRows) + panel * kTileRows * steps(d);
  }
  // Rows of A from `row` of the slab on, for a block of B.
  const float* a_tile(const BlockOfB& b, int64_t g, int64_t row) const {
    if constexpr (std::is_same_v<T, float>)
      if (as_stored_) return data<float>(args_.a) + p_.offset(p_.a, b.batch) + (a_rows_.first + row) * p_.a.row + b.d * block_.k_block;
    return a_panel(g, b.d, row / kTileRows);
  }
  const T* b_at(const BlockOfB& b) const {
    const int64_t k = b.d * block_.k_block, row = p_.b.row;
    return data<T>(args_.b) + p_.offset(p_.b, b.batch) + (args_.transpose_b ? b.first * row + k : k * row + b.first);
  }

  void pack_a(int64_t batch) const {
    const int64_t panels = ceil_div(a_rows_.count, kTileRows), at_once = panels_at_once(panels), groups = ceil_div(panels, at_once);
    parallel_for(matrices_ * k_range_.count * groups, threads(stream_), [&](int64_t task) HWY_ATTR {
      const int64_t g = task / groups / k_range_.count, d = k_range_.first + task / groups % k_range_.count,
                    first = task % groups * at_once;
      const T* a = data<T>(args_.a) + p_.offset(p_.a, batch + g);
      const int64_t k = d * block_.k_block, K = elements(d), strip = args_.transpose_a ? kStripOfA : K;
      for (int64_t s = 0; s < K; s += strip) {
        if (args_.transpose_a)
          prefetch_strip(a + (k + s + kStripsAhead * kStripOfA) * p_.a.row + a_rows_.first + first * kTileRows, p_.a.row,
                         at_once * kTileRows, K - s - kStripsAhead * kStripOfA);
        for (int64_t i = first; i < std::min(panels, first + at_once); ++i) {
          const int64_t row = a_rows_.first + i * kTileRows, rows = std::min<int64_t>(kTileRows, a_rows_.first + a_rows_.count - row);
          float* panel = a_panel(g, d, i) + words(s) * kTileRows;
          args_.transpose_a ? pack_across_k<Words, kTileRows>(a + (k + s) * p_.a.row + row, p_.a.row, rows, std::min(strip, K - s), panel)
                            : pack_along_k<Words, kTileRows>(a + row * p_.a.row + k, p_.a.row, rows, K, panel);
        }
      }
    });
  }

  // A transposed is stored across its panels: sixteen of them share whole cache lines, a strip of 8 k at a time. The hardware
  // prefetcher does not recognize a few lines of each k, so they are prefetched four strips before (measured: 2 to 4 % of TN).
  static constexpr int64_t kStripOfA = 8, kStripsAhead = 4;
  static void prefetch_strip(const T* a, int64_t step, int64_t rows, int64_t left) {
    for (int64_t k = 0; k < std::min(kStripOfA, left); ++k)
      for (int64_t i = 0; i < rows; i += int64_t(64 / sizeof(T))) __builtin_prefetch(a + k * step + i, 0, 2);
  }
  int64_t panels_at_once(int64_t panels) const {
    // Transposed: 16 panels of 6 rows are whole cache lines (96 floats); 8 if 16 would leave fewer than 16 tasks. Else 64 KiB a task.
    constexpr int64_t kPanelsOfLines = 16, kTasks = 16, kElementsOfTask = 16384;
    if (args_.transpose_a) return panels * k_range_.count * matrices_ >= kTasks * kPanelsOfLines ? kPanelsOfLines : kPanelsOfLines / 2;
    return std::max<int64_t>(1, kElementsOfTask / (kTileRows * block_.k_block + 1));
  }

  // The panel of B from column `j` of the block on.
  void pack_b(const BlockOfB& block, int64_t j, float* panel) const {
    const T* b = b_at(block) + j * (args_.transpose_b ? p_.b.row : 1);
    const int64_t K = elements(block.d), lines = std::min<int64_t>(kTileColumns, block.count - j);
    args_.transpose_b ? pack_along_k<Words, kTileColumns>(b, p_.b.row, lines, K, panel)
                      : pack_across_k<Words, kTileColumns>(b, p_.b.row, lines, K, panel);
  }

  void compute(int64_t batch) const {
    const int64_t width = block_.span * block_.columns, across = ceil_div(p_.N, width), down = ceil_div(a_rows_.count, block_.rows);
    const int64_t last_rows = block_.halve_last ? round_up(ceil_div(block_.rows, 2), kTileRows) : block_.rows;
    const int64_t before_last = (across - 1) * down, tasks = before_last + ceil_div(a_rows_.count, last_rows);
    // Consecutive tasks share the columns of B and go down the rows of A. The two halves of an odd task are the first and the last task,
    // one for each of two threads.
    const auto place = [&](int64_t index) {
      const int64_t turn = index % tasks, early = block_.halve_last ? (tasks - before_last) / 2 : 0;
      const int64_t task = turn < early ? before_last + turn : turn < early + before_last ? turn - early : turn;
      const bool last = task >= before_last;
      const int64_t height = last ? last_rows : block_.rows, row = last ? (task - before_last) * height : task % down * height;
      const int64_t column = last ? (across - 1) * width : task / down * width;
      return Task{index / tasks, {row, std::min(height, a_rows_.count - row)}, {column, std::min(width, p_.N - column)}};
    };
    const int64_t count = matrices_ * tasks;
    parallel_for(count, threads(stream_), [&](int64_t index) {
      compute_task(batch, place(index), index + 1 < count ? block(batch, place(index + 1), 0, k_range_.first) : BlockOfB{});
    });
  }

  // The block of a task from its column j on.
  BlockOfB block(int64_t batch, const Task& task, int64_t j, int64_t d) const {
    return {batch + task.g, d, task.columns.first + j, std::min(block_.columns, task.columns.count - j)};
  }

  // Multiplies block by block of B while the next is prefetched; after the last one that is the first block of the following task.
  void compute_task(int64_t batch, const Task& task, const BlockOfB& following) const {
    ScratchSlots::Lease lease(scratch_);
    float *sums = lease.take(sums_size()), *packed = lease.take(buffers_ * packed_size());
    HeldBlocks& held = held_[lease.slot()];
    for (int64_t j = 0; j < task.columns.count; j += block_.columns)
      for (int64_t d = k_range_.first; d < k_range_.first + k_range_.count; ++d) {
        const BlockOfB here = block(batch, task, j, d);
        const BlockOfB next = d + 1 < k_range_.first + k_range_.count   ? block(batch, task, j, d + 1)
                              : j + block_.columns < task.columns.count ? block(batch, task, j + block_.columns, k_range_.first)
                                                                        : following;
        const int buffer = held.find(here, buffers_);
        PrefetchLines lines{reinterpret_cast<const char*>(packed)};  // none
        CopyAhead<T> copy;
        if (next.count > 0 && !(next == here)) {
          if (copies_ahead_)
            copy = CopyAhead<T>(b_at(next), p_.b.row, elements(next.d), held.make(next, 1 - buffer), packed + (1 - buffer) * packed_size());
          else
            lines = lines_of(next);
        }
        multiply_block(task, here, held[buffer], packed + buffer * packed_size(), sums, lines, copy);
      }
    if (non_temporal_) hwy::FlushStream();
  }

  // sums (+)= rows of A times a block of B, six rows at a time, the first of which pack what is not packed yet; c after the last K block.
  // Sums without an epilogue go straight to c, in whole vectors; the others are finished tile by tile, out of L1.
  void multiply_block(const Task& task, const BlockOfB& block, PackedBlock& held, float* packed, float* sums, PrefetchLines lines,
                      CopyAhead<T> copy) const {
    const Range rows = task.rows;
    const int64_t columns = block.count, stride = block_.k_blocks > 1 ? sums_stride() : kTileColumns;
    const bool started = finish_.starts_at_c(), first = block.d == 0, last = block.d + 1 == block_.k_blocks;
    const int64_t straight = !finish_.only_sums() ? 0 : columns % kLanes == 0 ? columns : columns / kTileColumns * kTileColumns;
    alignas(64) float tile[kTileRows * kTileColumns];
    const auto piece = [&](int64_t i, int64_t j) {
      return Piece{block.batch, a_rows_.first + rows.first + i, block.first + j, std::min<int64_t>(kTileColumns, columns - j)};
    };
    const float* a = a_tile(block, task.g, rows.first);
    const int64_t steps = this->steps(block.d), a_row = as_stored_ ? p_.a.row : steps;  // of a panel, a sixth
    const bool in_c = (last || by_k_block_) && !non_temporal_;
    for (int64_t i = 0, height; i < rows.count; i += height) {
      height = tile_rows(rows.count - i);
      for (int64_t j = 0; j < columns; j += kTileColumns) {
        const Piece here = piece(i, j);
        float* partial = block_.k_blocks > 1 ? sums + i * stride + j : tile;
        Sums to{!first || started ? partial : nullptr, stride, last ? tile : partial, last ? kTileColumns : stride};
        if (j < straight) {
          float* c = finish_.c(here);
          if ((first && started) || (!first && by_k_block_)) to.from = c, to.from_row = p_.c.row;
          if (last || by_k_block_) to.c = c, to.row = p_.c.row, to.non_temporal = last && non_temporal_;
        } else if (first && started) {
          for (int64_t r = 0; r < height; ++r) finish_.start(piece(i + r, j), partial + r * stride);
        }
        Prefetch soon = lines.next();
        // Prefetches the rows of A below or, before the next block, the first rows again.
        prefetch_a(a + (i + height < rows.count ? i + height : 0) * a_row, j / kTileColumns, a_row, soon);
        soon.c = !in_c ? reinterpret_cast<const char*>(tile)
                       : finish_.place(j + kTileColumns < columns ? piece(i, j + kTileColumns) : piece(i + height, 0));
        soon.c_row = in_c ? p_.c.row * int64_t(sizeof(C)) : 0;
        float* panel = packed + j * steps;
        const Tile t{height, here.columns, steps, a + i * a_row, panel, as_stored_ ? p_.a.row : 0, to};
        if (held.panels <= j / kTileColumns) {
          multiply_first(block, j, t, panel, soon);
          ++held.panels;
        } else
          multiply(t, soon, copy);
        if (last && j >= straight) finish_(here, height, tile, kTileColumns, started);
      }
    }
    copy.finish();
  }

  // Height of the next tile when `left` rows remain. The last two tiles share their rows evenly: a 2-row tile loads as much of B as a
  // 6-row one. A packed A has panels of six rows.
  int64_t tile_rows(int64_t left) const {
    return !as_stored_ || left <= kTileRows || left >= 2 * kTileRows ? std::min<int64_t>(kTileRows, left) : ceil_div(left, 2);
  }

  // The first rows that need the panel of B from column j on pack it; while they multiply, if B is stored as the panel is.
  void multiply_first(const BlockOfB& block, int64_t j, const Tile& t, float* panel, Prefetch ahead) const {
    if constexpr (Words::kElements == 1)
      if (!args_.transpose_b && t.rows == kTileRows && t.columns == kTileColumns)
        return multiply_and_pack(t, b_at(block) + j, p_.b.row, panel, ahead);
    pack_b(block, j, panel);
    CopyAhead<T> none;
    multiply(t, ahead, none);
  }

  static void multiply(const Tile& t, Prefetch ahead, CopyAhead<T>& copy) {
    if constexpr (Words::kElements == 1) {
      if (copy.any() && t.rows == kTileRows && t.columns == kTileColumns) return multiply_and_copy(t, copy.part(t.steps), ahead);
      return multiply_tile<FmaStep>(t, ahead);
    }
    if constexpr (kTileColumns == kPairColumns)
      if (bf16_dot() == Bf16Dot::hardware)
        return multiply_pairs(
            {t.rows, t.columns, t.steps, t.a, t.b, t.sums.from, t.sums.from_row, t.sums.c, t.sums.row, ahead.b, ahead.b_stride});
    multiply_tile<PairStep>(t, ahead);
  }

  // The lines that tiles prefetch of the next block: along its rows if B is transposed, else down its columns of lines.
  PrefetchLines lines_of(const BlockOfB& next) const {
    const char* b = reinterpret_cast<const char*>(b_at(next));
    const int64_t bytes = sizeof(T), row = p_.b.row * bytes, lines = steps(next.d) / kStepsOfLine * 4;
    if (args_.transpose_b) {
      const int64_t rows_each = std::max<int64_t>(1, lines * 64 / std::max<int64_t>(64, elements(next.d) * bytes));
      return {b, 64, 0, 1, rows_each * row, ceil_div(next.count, rows_each)};
    }
    constexpr int64_t kParts = 4 * Words::kElements;  // tiles for one column of lines
    return {b, row, lines * row, kParts, 64, kParts * ceil_div(next.count * bytes, 64)};
  }

  // The first of the tiles side by side prefetches four of the six rows of A from `a` on, the second two.
  static void prefetch_a(const float* a, int64_t beside, int64_t row, Prefetch& ahead) {
    ahead.a = reinterpret_cast<const char*>(4 * beside < kTileRows ? a + 4 * beside * row : a);
    ahead.a_row = row * int64_t(sizeof(float));
  }

  Stream& stream_;
  const MatmulArgs& args_;
  const MatmulPlan p_;
  const Blocking block_;
  const Finish<C> finish_;
  const bool as_stored_;  // A is read as stored, not packed
  // One K block at a time for all of C, with sums in C between two: where that moves less than packing all of A, or B again, would.
  const bool by_k_block_;
  const bool non_temporal_ = finish_.aligned() && p_.batch() * p_.M * p_.N * int64_t(sizeof(C)) >= kOutOfCache;
  // Rows of B a multiple of 4 KiB apart map to 16 sets of L2 or fewer: a prefetched block of hundreds of rows does not stay in their 20
  // ways, so it is copied, some lines at a time. Without such collisions the copy costs more than it gains: see docs/lab/matmul-cpu.md.
  const bool copies_ahead_ = Words::kElements == 1 && !args_.transpose_b && p_.b.row * int64_t(sizeof(T)) % 4096 == 0;
  const int buffers_ = copies_ahead_ || (block_.k_blocks == 2 && block_.rows < p_.M) ? 2 : 1;  // both K blocks are kept for the rows below
  const Scratch<float> a_;
  mutable ScratchSlots scratch_;
  mutable std::vector<HeldBlocks> held_;
  int64_t matrices_ = 0;  // packed at present: matrices of the batch, rows of A
  Range a_rows_, k_range_;
};

int64_t rows_of_one_b(const MatmulPlan& p) { return p.shared_b ? p.batch() * p.M : p.M; }

bool by_amx() { return bf16_dot() == Bf16Dot::amx || bf16_dot() == Bf16Dot::emulated_amx; }

template <class T, class C>
void multiply_one(Stream& stream, const MatmulArgs& args);

// An int8 B and many rows of A: widens some rows of B to T in workspace, multiplies by them, and goes on with the next.
template <class T, class C>
void multiply_widened(Stream& stream, const MatmulArgs& args) {
  constexpr int64_t kBytes = int64_t(4) << 20, kRows = 64, kTask = 16;  // kBytes stays in the caches between widening and multiplying
  const int64_t N = args.b.shape[0], K = args.b.shape[1], row = std::max<int64_t>(1, K * int64_t(sizeof(T)));
  const int64_t most = std::min(N, std::max(kRows, kBytes / row / kRows * kRows));
  const auto memory = stream.device().allocate(most * row, MemoryUse::workspace);
  T* const widened = reinterpret_cast<T*>(static_cast<char*>(memory->handle()) + memory->offset());
  for (int64_t first = 0; first < N; first += most) {
    const int64_t count = std::min(most, N - first);
    parallel_for(ceil_div(count, kTask), threads(stream), [&](int64_t task) HWY_ATTR {
      widen_rows<false>(args, first + task * kTask, std::min(kTask, count - task * kTask), 0, K, widened + task * kTask * K, K, kTask * K);
    });
    MatmulArgs piece = args;
    piece.scales = {};
    piece.b = View{memory.get(), 0, args.a.dtype, {count, K}, {K, 1}};
    piece.c = part(args.c, args.c.rank() - 1, first, first + count);
    if (args.bias) piece.bias = part(args.bias, 0, first, first + count);
    multiply_one<T, C>(stream, piece);
  }
}

template <class T, class C>
void multiply_one(Stream& stream, const MatmulArgs& args) {
  const MatmulPlan p = plan(args);
  if (p.batch() * p.M * p.N == 0) return;
  if (args.scales && (rows_of_one_b(p) > MatmulArgs::kSkinnyRows || (std::is_same_v<T, bf16> && by_amx())))
    return multiply_widened<T, C>(stream, args);
  if (rows_of_one_b(p) <= MatmulArgs::kSkinnyRows) return multiply_skinny<T, C>(stream, std::span(&args, 1));
  if constexpr (std::is_same_v<T, float>)
    if (TransposedMatmul::applies(args, p)) return TransposedMatmul(stream, args, p).run();
  if constexpr (std::is_same_v<T, bf16>) {
    if (by_amx()) return AmxMatmul<C>(stream, args, p).run();
    if (bf16_dot() == Bf16Dot::emulated || (bf16_dot() == Bf16Dot::hardware && kTileColumns == kPairColumns))
      return PackedMatmul<PairedWords, C>(stream, args, p).run();
  }
  PackedMatmul<WidenedWords<T>, C>(stream, args, p).run();
}

}  // namespace

void matmul(Stream& stream, const MatmulArgs& args) {
  if (args.a.dtype == DType::f32)
    multiply_one<float, float>(stream, args);
  else if (args.c.dtype == DType::f32)
    multiply_one<bf16, float>(stream, args);
  else
    multiply_one<bf16, bf16>(stream, args);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(matmul, MatmulArgs)
#endif
