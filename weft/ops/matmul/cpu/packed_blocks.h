// Packed blocks of B that a thread keeps from task to task: the one that it multiplies and, where B is stored as its panels are,
// the next, copied a few rows at a time between the steps of this one.

#if defined(WEFT_OPS_MATMUL_CPU_PACKED_BLOCKS_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_OPS_MATMUL_CPU_PACKED_BLOCKS_H_
#undef WEFT_OPS_MATMUL_CPU_PACKED_BLOCKS_H_
#else
#define WEFT_OPS_MATMUL_CPU_PACKED_BLOCKS_H_
#endif

#include "weft/tile/cpu/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// Columns [first, first + count) of B over K block `d`.
struct BlockOfB {
  int64_t batch = -1, d = 0, first = 0, count = 0;
  bool operator==(const BlockOfB&) const = default;
};

// The block a buffer is for and how many of its panels, from the first on, are packed.
struct PackedBlock {
  BlockOfB block;
  int64_t panels = 0;
};

// The blocks in the buffers of one slot. A block is packed once: the task for the rows below finds it.
class HeldBlocks {
 public:
  // The buffer that holds `block`; if none does, it is assigned the buffer not used last.
  int find(const BlockOfB& block, int buffers) {
    for (int i = 0; i < buffers; ++i)
      if (held_[i].block == block) return latest_ = i;
    latest_ = buffers == 1 ? 0 : 1 - latest_;
    make(block, latest_);
    return latest_;
  }
  // Assigns a buffer to `block`, which may be in it already.
  PackedBlock& make(const BlockOfB& block, int buffer) {
    if (!(held_[buffer].block == block)) held_[buffer] = {block, 0};
    return held_[buffer];
  }
  PackedBlock& operator[](int buffer) { return held_[buffer]; }

 private:
  PackedBlock held_[2];
  int latest_ = 0;
};

// The cache lines of the next block that tiles of this one prefetch, one every four steps, `stride` apart: `parts` tiles for one column
// of lines of B as stored, or one tile for some rows of B transposed.
struct PrefetchLines {
  const char* b;
  int64_t stride = 0, part_bytes = 0, parts = 1, column_bytes = 0, tiles = 0;
  int64_t part = 0;

  Prefetch next() {
    if (tiles == 0) return {b, 0};
    --tiles;
    const Prefetch now{b + part * part_bytes, stride};
    if (++part == parts) part = 0, b += column_bytes;
    return now;
  }
};

// Copies the whole panels of the next block while tiles of this one are multiplied.
template <class T>
class CopyAhead {
 public:
  CopyAhead() = default;
  CopyAhead(const T* b, int64_t row, int64_t k_block, PackedBlock& to, float* packed)
      : b_(b), row_(row), k_block_(k_block), to_(&to), packed_(packed) {}

  bool any() const { return to_ && to_->panels < to_->block.count / kTileColumns; }

  // The part that a tile of `steps` steps copies: a vector every four steps.
  CopyB<T> part(int64_t steps) {
    const int64_t rows = std::min(k_block_ - k_, steps / kStepsOfLine * 4 / kTileVectors);
    if (k_ == 0)
      for (int64_t k = 0; k < std::min<int64_t>(k_block_, kRowsAhead); ++k)
        for (int j = 0; j < kTileVectors; ++j) __builtin_prefetch(source() + k * row_ + j * kLanes, 0, 2);
    const CopyB<T> part{source(), row_, packed_ + (to_->panels * k_block_ + k_) * kTileColumns, rows * kTileVectors};
    advance(rows);
    return part;
  }
  // Copies the rest of a panel that was begun.
  void finish() {
    if (k_ == 0) return;
    pack_across_k<WidenedWords<T>, kTileColumns>(source(), row_, kTileColumns, k_block_ - k_,
                                                 packed_ + (to_->panels * k_block_ + k_) * kTileColumns);
    advance(k_block_ - k_);
  }

 private:
  const T* source() const { return b_ + k_ * row_ + to_->panels * kTileColumns; }
  void advance(int64_t rows) {
    if ((k_ += rows) == k_block_) k_ = 0, ++to_->panels;
  }

  const T* b_ = nullptr;
  int64_t row_ = 0, k_block_ = 0, k_ = 0;
  PackedBlock* to_ = nullptr;
  float* packed_ = nullptr;
};

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
