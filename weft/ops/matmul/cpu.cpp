#include "weft/ops/matmul/matmul.h"
#include "weft/tile/cpu/scratch_slots.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/matmul/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/ops/matmul/few_rows.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t round_up(int64_t n, int64_t to) { return ceil_div(n, to) * to; }

// How the work is cut; none of it changes a bit of the result.
struct Blocking {
  // A panel of B of this depth is 32 KiB on AVX-512 (32 columns) and 16 KiB elsewhere: it stays in L1 while the panels of
  // A, 12 or 6 KiB each, pass by.
  static constexpr int64_t kDepth = 256;
  // A block of A of 120 rows (a multiple of both tile heights) is 120 KiB: half of the smallest L2 there is.
  static constexpr int64_t kRows = 120, kMostColumns = 256, kLeastTasks = 32;
  // Up to this many rows each part of B meets one block of A only. Then the task that uses it packs it, into its own L2;
  // above, B is packed once for all tasks.
  static constexpr int64_t kFusedRows = 2 * kRows;
  // Packed A and packed B, in floats, at a time: B stays in a last-level cache of 16 MiB.
  static constexpr int64_t kMostA = int64_t(16) << 20, kMostB = int64_t(4) << 20;

  bool fused;
  int64_t depth, depths;    // K in equal steps
  int64_t group;            // matrices of the batch at a time
  int64_t slab_rows;        // rows of A packed at a time
  int64_t rows, columns;    // of a task's block of C
  int64_t slab_columns;     // columns of B packed at a time, where not fused

  explicit Blocking(const MatmulPlan& p) {
    fused = p.M <= kFusedRows;
    depths = ceil_div(p.K, kDepth);
    depth = depths ? ceil_div(p.K, depths) : 0;
    const int64_t K = std::max<int64_t>(1, p.K), padded = round_up(p.M, kTileRows);
    group = std::clamp<int64_t>(kMostA / (padded * K), 1, p.batch());
    slab_rows = fused ? padded : std::min(round_up(p.M, kRows), std::max(kRows, kMostA / K / kRows * kRows));
    rows = fused ? padded : kRows;
    columns = fused ? kMostColumns / 2 : kMostColumns;
    const auto tasks = [&] { return group * ceil_div(p.M, rows) * ceil_div(p.N, columns); };
    while (tasks() < kLeastTasks && columns > 2 * kTileColumns) columns /= 2;
    slab_columns = std::max(columns, std::min(round_up(p.N, columns), kMostB / (group * K) / columns * columns));
  }
};

template <class T, class C>
class PackedProduct {
 public:
  PackedProduct(Stream& stream, const MatmulArgs& args, const MatmulPlan& plan)
      : stream_(stream), args_(args), p_(plan), block_(plan), finish_(args, p_),
        a_(stream, block_.group * std::min(block_.slab_rows, round_up(plan.M, kTileRows)) * plan.K),
        b_(stream, block_.fused ? 0 : block_.group * block_.slab_columns * plan.K),
        scratch_(stream, sums_size() + packed_size()) {}

  // Equation: c = f(alpha op(A) op(B) + beta C + bias).
  // Layout:   A, B, C row-major with any row stride; matrices of a batch at any distance. Packed: gemm.h's panels, all
  //           panels of one step of depth together.
  // Order:    an element takes k in turn, one fma each, from beta C (or 0), across all steps of depth; see multiply_panels.
  //           Tasks are blocks of C, their extents by the shape alone.
  // Requires: unit-stride rows (the contract's). K = 0 gives f(beta C + bias).
  // Traffic:  A and B are read and packed once (B once per slab of A); C is written once (and read where beta is not 0).
  void run() {
    for (int64_t batch = 0; batch < p_.batch(); batch += block_.group) {
      matrices_ = std::min(block_.group, p_.batch() - batch);
      for (int64_t row = 0; row < p_.M; row += block_.slab_rows) {
        a_rows_ = {row, std::min(block_.slab_rows, p_.M - row)};
        pack_a(batch);
        const int64_t width = block_.fused ? p_.N : block_.slab_columns;
        for (int64_t column = 0; column < p_.N; column += width) {
          b_columns_ = {column, std::min(width, p_.N - column)};
          if (!block_.fused) pack_b(batch);
          compute(batch);
        }
      }
    }
  }

 private:
  struct Range {
    int64_t first = 0, count = 0;
  };

  int64_t sums_stride() const { return block_.columns + kBlock; }  // off the powers of two, where cache sets collide
  int64_t sums_size() const { return block_.rows * sums_stride(); }
  int64_t packed_size() const { return block_.fused ? block_.columns * block_.depth : 0; }
  int64_t steps(int64_t depth_index) const { return std::min(block_.depth, p_.K - depth_index * block_.depth); }

  // Panels of matrix `g` of the group at one step of depth, from panel `panel` on.
  float* a_panel(int64_t g, int64_t d, int64_t panel) const {
    return a_.data() + (g * p_.K + d * block_.depth) * round_up(a_rows_.count, kTileRows) + panel * kTileRows * steps(d);
  }
  float* b_panel(int64_t g, int64_t d, int64_t panel) const {
    return b_.data() + (g * p_.K + d * block_.depth) * round_up(b_columns_.count, kTileColumns) + panel * kTileColumns * steps(d);
  }

  void pack_a(int64_t batch) const {
    constexpr int64_t kPanels = Blocking::kRows / kTileRows;
    const int64_t panels = ceil_div(a_rows_.count, kTileRows), groups = ceil_div(panels, kPanels);
    parallel_for(matrices_ * block_.depths * groups, threads(stream_), [&](int64_t task) HWY_ATTR {
      const int64_t g = task / groups / block_.depths, d = task / groups % block_.depths, first = task % groups * kPanels;
      const T* a = data<T>(args_.a) + p_.offset(p_.a, batch + g);
      const int64_t k = d * block_.depth, K = steps(d);
      for (int64_t i = first; i < std::min(panels, first + kPanels); ++i) {
        const int64_t row = a_rows_.first + i * kTileRows, rows = std::min<int64_t>(kTileRows, a_rows_.first + a_rows_.count - row);
        float* panel = a_panel(g, d, i);
        args_.transpose_a ? pack_across_k<kTileRows>(a + k * p_.a.row + row, p_.a.row, rows, K, panel)
                          : pack_along_k<kTileRows>(a + row * p_.a.row + k, p_.a.row, rows, K, panel);
      }
    });
  }

  // Columns [first, first + count) of B at one step of depth, into panels.
  void pack_columns(int64_t batch, int64_t d, Range columns, float* panels) const {
    const T* b = data<T>(args_.b) + p_.offset(p_.b, batch);
    const int64_t k = d * block_.depth, K = steps(d);
    for (int64_t j = 0; j < columns.count; j += kTileColumns, panels += kTileColumns * K) {
      const int64_t column = columns.first + j, lines = std::min<int64_t>(kTileColumns, columns.count - j);
      args_.transpose_b ? pack_along_k<kTileColumns>(b + column * p_.b.row + k, p_.b.row, lines, K, panels)
                        : pack_across_k<kTileColumns>(b + k * p_.b.row + column, p_.b.row, lines, K, panels);
    }
  }

  void pack_b(int64_t batch) const {
    const int64_t chunk = 4 * kTileColumns, chunks = ceil_div(b_columns_.count, chunk);
    parallel_for(matrices_ * block_.depths * chunks, threads(stream_), [&](int64_t task) {
      const int64_t g = task / chunks / block_.depths, d = task / chunks % block_.depths, first = task % chunks * chunk;
      pack_columns(batch + g, d, {b_columns_.first + first, std::min(chunk, b_columns_.count - first)}, b_panel(g, d, first / kTileColumns));
    });
  }

  void compute(int64_t batch) const {
    const int64_t down = ceil_div(a_rows_.count, block_.rows), across = ceil_div(b_columns_.count, block_.columns);
    parallel_for(matrices_ * down * across, threads(stream_), [&](int64_t task) {
      // Neighbours in time share the columns of B and walk down A.
      const int64_t g = task / (down * across), row = task % down * block_.rows, column = task / down % across * block_.columns;
      compute_block(batch, g, {row, std::min(block_.rows, a_rows_.count - row)},
                    {column, std::min(block_.columns, b_columns_.count - column)});
    });
  }

  // One block of C: rows and columns within the packed slabs.
  void compute_block(int64_t batch, int64_t g, Range rows, Range columns) const {
    ScratchSlots::Lease lease(scratch_);
    float *sums = lease.take(sums_size()), *packed = lease.take(packed_size());
    const int64_t stride = sums_stride();
    const bool started = finish_.starts_at_c();
    const auto piece = [&](int64_t i) {
      return Piece{batch + g, a_rows_.first + rows.first + i, b_columns_.first + columns.first, columns.count};
    };
    if (started || p_.K == 0) std::memset(sums, 0, size_t(sums_size()) * sizeof(float));
    if (started)
      for (int64_t i = 0; i < rows.count; ++i) finish_.start(piece(i), sums + i * stride);
    for (int64_t d = 0; d < block_.depths; ++d) {
      const float *a = a_panel(g, d, rows.first / kTileRows), *b = packed;
      if (block_.fused)
        pack_columns(batch + g, d, {columns.first, columns.count}, packed);
      else
        b = b_panel(g, d, columns.first / kTileColumns);
      multiply_block(rows.count, columns.count, steps(d), a, b, sums, d == 0 && !started);
    }
    for (int64_t i = 0; i < rows.count; ++i) finish_(piece(i), sums + i * stride, started);
  }

  // sums (+)= the product of packed panels of one step of depth.
  void multiply_block(int64_t rows, int64_t columns, int64_t K, const float* a, const float* b, float* sums, bool from_zero) const {
    for (int64_t j = 0; j < columns; j += kTileColumns)
      for (int64_t i = 0; i < rows; i += kTileRows) {
        float* tile = sums + i * sums_stride() + j;
        from_zero ? multiply_panels<true>(K, a + i * K, b + j * K, tile, sums_stride())
                  : multiply_panels<false>(K, a + i * K, b + j * K, tile, sums_stride());
      }
  }

  Stream& stream_;
  const MatmulArgs& args_;
  const MatmulPlan p_;
  const Blocking block_;
  const Finish<C> finish_;
  const Scratch<float> a_, b_;
  mutable ScratchSlots scratch_;
  int64_t matrices_ = 0;     // what is packed now: matrices of the batch, rows of A, columns of B
  Range a_rows_, b_columns_;
};

// A batch that shares B is one product of more rows where the rows of all matrices are equally spaced.
bool stacked(const MatmulPlan& p, const MatmulPlan::Matrix& m) {
  return (p.inner == 1 || m.inner == p.M * m.row) && (p.outer == 1 || m.outer == p.inner * p.M * m.row);
}

template <class T, class C>
void product(Stream& stream, const MatmulArgs& args) {
  MatmulPlan p = plan(args);
  if (p.batch() * p.M * p.N == 0) return;
  if ((p.shared_b ? p.batch() * p.M : p.M) <= MatmulArgs::kFewRows) return multiply_few_rows<T, C>(stream, args, p);
  if (p.shared_b && !args.transpose_a && stacked(p, p.a) && stacked(p, p.c) && (!args.pre || stacked(p, p.pre))) {
    p.M *= p.batch();
    p.outer = p.inner = 1;
  }
  PackedProduct<T, C>(stream, args, p).run();
}

}  // namespace

void matmul(Stream& stream, const MatmulArgs& args) {
  if (args.a.dtype == DType::f32)
    product<float, float>(stream, args);
  else if (args.c.dtype == DType::f32)
    product<bf16, float>(stream, args);
  else
    product<bf16, bf16>(stream, args);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(matmul, MatmulArgs)
#endif
