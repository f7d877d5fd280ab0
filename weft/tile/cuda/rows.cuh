// Rows of a row op. A group of threads iterates over a row as often as the kernel needs while it is read from memory once. Aligned rows
// of whole chunks (kWhole) are loaded into registers, one row to a group, and many groups hide the latency. Others are copied
// asynchronously into shared memory, some rows ahead, each thread loading what it will itself read, so that no barrier is needed. A row
// too long for either (kChunks = 0) is read again in every iteration, mostly from L2.
//
// Thread t of a group has the chunks t, t + kThreads, ... of kWidth elements. Where a row is not aligned to 16 bytes, or
// at its end, elements are moved one by one.
#pragma once

#include <initializer_list>
#include <type_traits>

#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/launch.h"
#include "weft/tile/cuda/mma.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {

// The position of a chunk. kWhole: all its elements exist.
template <bool kWhole_>
struct ChunkAt {
  static constexpr bool kWhole = kWhole_;
  int slot, first, left;  // slot: constant after unrolling where rows are held; left: elements from `first` to the row's end
  __device__ __forceinline__ bool has(int i) const { return kWhole || i < left; }
};

// The shape of the loop over a row. kWhole: rows are aligned and made of whole chunks.
template <int kThreads_, int kChunks_, int kWidth_, bool kWhole_ = false>
struct Walk {
  static constexpr int kThreads = kThreads_, kChunks = kChunks_, kWidth = kWidth_;
  static constexpr bool kHeld = kChunks > 0, kWhole = kWhole_;
  static_assert(kHeld || !kWhole);

  template <class F>
  __device__ __forceinline__ static void each(int columns, F&& body) {
    const auto visit = [&](int slot, int first) {
      if (first + kWidth <= columns)
        body(ChunkAt<true>{slot, first, kWidth});
      else if (!kWhole && first < columns)
        body(ChunkAt<false>{slot, first, columns - first});
    };
    if constexpr (kHeld) {
#pragma unroll
      for (int slot = 0; slot < kChunks; ++slot) visit(slot, (slot * kThreads + Group<kThreads>::rank()) * kWidth);
    } else {
#pragma unroll 4
      for (int first = Group<kThreads>::rank() * kWidth; first < columns; first += kThreads * kWidth) visit(0, first);
    }
  }
};

template <class W, class T, class At>
__device__ __forceinline__ Chunk<T, W::kWidth> get(const T* row, At at, bool aligned) {
  if (W::kWhole || (At::kWhole && aligned)) return load_chunk<T, W::kWidth>(row + at.first);
  return load_chunk<T, W::kWidth>(row + at.first, at.left, 0);
}
template <class W, class T, class At>
__device__ __forceinline__ void put(const Chunk<T, W::kWidth>& piece, T* row, At at, bool aligned) {
  if (W::kWhole || (At::kWhole && aligned))
    stream_chunk(piece, row + at.first);
  else
    store_chunk(piece, row + at.first, at.left);
}

// This thread's chunks of an aligned row of whole chunks; zeros past its end. Selected, not branched over: all loads are in flight
// before the first is used.
template <class W, class T>
__device__ __forceinline__ void hold_row(Chunk<T, W::kWidth> (&held)[W::kChunks], const T* row, int columns) {
#pragma unroll
  for (int slot = 0; slot < W::kChunks; ++slot) {
    const int first = (slot * W::kThreads + Group<W::kThreads>::rank()) * W::kWidth;
#pragma unroll
    for (int v = 0; v < Chunk<T, W::kWidth>::kVectors; ++v) {
      uint4 vector{0, 0, 0, 0};
      if (first < columns) vector = reinterpret_cast<const uint4*>(row + first)[v];
      reinterpret_cast<uint4*>(held[slot].at)[v] = vector;
    }
  }
}

// A row used for all rows: the weights of a norm, in registers.
template <class T, class W>
class Row {
 public:
  __device__ __forceinline__ Row(const T* row, int columns, bool aligned) : row_(row), aligned_(aligned) {
    if constexpr (W::kWhole)
      hold_row<W>(held_, row_, columns);
    else if constexpr (W::kHeld)
      W::each(columns, [&](auto at) { held_[at.slot] = get<W>(row_, at, aligned_); });
  }
  template <class At>
  __device__ __forceinline__ Chunk<T, W::kWidth> piece(At at) const {
    if constexpr (W::kHeld)
      return held_[at.slot];
    else
      return get<W>(row_, at, aligned_);
  }

 private:
  const T* row_;
  bool aligned_;
  Chunk<T, W::kWidth> held_[W::kHeld ? W::kChunks : 1];
};

inline constexpr int kRowStages = 4;  // rows in flight or in use

// The rows of kOperands inputs, one after the other. `pointer(operand, row)` returns where one begins.
template <class T, class W, int kOperands, class Pointer>
class RowStream {
 public:
  static constexpr int kStageChunks = kOperands * (W::kHeld ? W::kChunks : 0);

  __device__ __forceinline__ RowStream(void* shared, Pointer pointer, int64_t first, int64_t step, int64_t rows, int columns, bool aligned)
      : shared_(static_cast<uint4*>(shared) + threadIdx.x),
        pointer_(pointer),
        row_(first),
        step_(step),
        rows_(rows),
        columns_(columns),
        aligned_(aligned) {
    if constexpr (W::kHeld)
#pragma unroll
      for (int ahead = 0; ahead < kRowStages - 1; ++ahead) fetch(ahead);
  }

  __device__ __forceinline__ bool has_row() const { return row_ < rows_; }
  __device__ __forceinline__ int64_t row() const { return row_; }
  __device__ __forceinline__ void arrive() {
    if constexpr (W::kHeld) {
      fetch(kRowStages - 1);
      copies_wait<kRowStages - 1>();
    }
  }
  __device__ __forceinline__ void advance() {
    row_ += step_;
    replaced_ = nullptr;
    stage_ = (stage_ + 1) % kRowStages;
  }

  template <class At>
  __device__ __forceinline__ Chunk<T, W::kWidth> piece(int operand, At at) const {
    if constexpr (W::kHeld)
      return *reinterpret_cast<const Chunk<T, W::kWidth>*>(slot(stage_, operand, at.slot));
    else
      return get<W>(replaced_ && operand == 0 ? replaced_ : pointer_(operand, row_), at, aligned_);
  }
  // The current row changes: held pieces are replaced one by one; a row that is not held has just been
  // written to memory by the threads that read it again, and is read from there.
  template <class At>
  __device__ __forceinline__ void replace(int operand, At at, const Chunk<T, W::kWidth>& piece) {
    *reinterpret_cast<Chunk<T, W::kWidth>*>(slot(stage_, operand, at.slot)) = piece;
  }
  __device__ __forceinline__ void read_from(const T* row) { replaced_ = row; }

 private:
  static_assert(W::kWidth * sizeof(T) == 16);
  __device__ __forceinline__ uint4* slot(int stage, int operand, int chunk) const {
    return shared_ + (stage * kStageChunks + operand * (W::kHeld ? W::kChunks : 1) + chunk) * int(blockDim.x);
  }
  // The row that comes `ahead` turns from now, into the stage it will have.
  __device__ __forceinline__ void fetch(int ahead) {
    const int64_t row = row_ + ahead * step_;
    const int stage = (stage_ + ahead) % kRowStages;
    if (row < rows_)
#pragma unroll
      for (int operand = 0; operand < kOperands; ++operand) {
        const T* from = pointer_(operand, row);
        W::each(columns_, [&](auto at) {
          if (aligned_)
            copy_async(shared_address(slot(stage, operand, at.slot)), from + at.first, at.left * int(sizeof(T)));
          else
            *reinterpret_cast<Chunk<T, W::kWidth>*>(slot(stage, operand, at.slot)) = load_chunk<T, W::kWidth>(from + at.first, at.left, 0);
        });
      }
    copies_end();  // past the last row too: copies_wait counts groups
  }

  uint4* shared_;
  Pointer pointer_;
  int64_t row_, step_, rows_;
  int columns_, stage_ = 0;
  bool aligned_;
  const T* replaced_ = nullptr;
};

// One row of each input in registers, with the same interface.
template <class T, class W, int kOperands, class Pointer>
class RowInRegisters {
 public:
  __device__ __forceinline__ RowInRegisters(Pointer pointer, int64_t row, int64_t rows, int columns)
      : pointer_(pointer), row_(row), columns_(columns), left_(row < rows) {}

  __device__ __forceinline__ bool has_row() const { return left_; }
  __device__ __forceinline__ int64_t row() const { return row_; }
  __device__ __forceinline__ void arrive() {
#pragma unroll
    for (int operand = 0; operand < kOperands; ++operand) hold_row<W>(held_[operand], pointer_(operand, row_), columns_);
  }
  __device__ __forceinline__ void advance() { left_ = false; }
  template <class At>
  __device__ __forceinline__ Chunk<T, W::kWidth> piece(int operand, At at) const {
    return held_[operand][at.slot];
  }
  template <class At>
  __device__ __forceinline__ void replace(int operand, At at, const Chunk<T, W::kWidth>& piece) {
    held_[operand][at.slot] = piece;
  }

 private:
  Pointer pointer_;
  int64_t row_;
  int columns_;
  bool left_;
  Chunk<T, W::kWidth> held_[kOperands][W::kChunks];
};

template <class T, class W, int kOperands, class Pointer>
__device__ __forceinline__ auto stream_rows(void* shared, Pointer pointer, int64_t first, int64_t step, int64_t rows, int columns,
                                            bool aligned) {
  if constexpr (W::kWhole)
    return RowInRegisters<T, W, kOperands, Pointer>(pointer, first, rows, columns);
  else
    return RowStream<T, W, kOperands, Pointer>(shared, pointer, first, step, rows, columns, aligned);
}
template <class W, int kOperands>
constexpr int stream_bytes() {
  return W::kHeld && !W::kWhole ? kRowStages * kOperands * W::kChunks * Group<W::kThreads>::kBlockThreads * 16 : 0;
}

// f.operator()<Walk>() with a walk that holds rows of `columns` elements, kWidth to a chunk.
template <int kWidth, class F>
void with_walk(int64_t columns, F&& f) {
  const int64_t chunks = (columns + kWidth - 1) / kWidth;
  if (chunks <= 32) return f.template operator()<Walk<32, 1, kWidth>>();
  if (chunks <= 128) return f.template operator()<Walk<128, 1, kWidth>>();
  if (chunks <= 256) return f.template operator()<Walk<128, 2, kWidth>>();
  if (chunks <= 512) return f.template operator()<Walk<256, 2, kWidth>>();
  if (chunks <= 1024) return f.template operator()<Walk<512, 2, kWidth>>();
  return f.template operator()<Walk<1024, 0, kWidth>>();
}

// The same where a row may be held in registers: rows of whole chunks, if `aligned`.
template <int kWidth, class F>
void with_whole_walk(int64_t columns, bool aligned, F&& f) {
  const int64_t chunks = columns / kWidth;
  if (!aligned || columns % kWidth != 0 || chunks > 1024) return with_walk<kWidth>(columns, f);
  if (chunks <= 32) return f.template operator()<Walk<32, 1, kWidth, true>>();
  if (chunks <= 128) return f.template operator()<Walk<128, 1, kWidth, true>>();
  if (chunks <= 256) return f.template operator()<Walk<128, 2, kWidth, true>>();
  if (chunks <= 512) return f.template operator()<Walk<256, 2, kWidth, true>>();
  return f.template operator()<Walk<512, 2, kWidth, true>>();
}

// Whether every row of these operands (the absent ones aside) starts at 16 bytes.
struct RowOperand {
  const View* view;
  int64_t stride;
};
template <class T>
bool rows_aligned(std::initializer_list<RowOperand> operands) {
  for (const RowOperand& o : operands)
    if (*o.view && (!aligned16(data<T>(*o.view)) || o.stride % kPerVector<T> != 0)) return false;
  return true;
}

inline int columns_of(const char* op, const Rows& rows) {
  check(rows.columns <= (1 << 30), op, "rows of ", rows.columns, " elements are longer than this device takes");
  return int(rows.columns);
}

// A group for each row that is held in registers; else as many blocks as the GPU holds at once, and kernels stride over the rows.
template <class W, int kOperands>
unsigned row_blocks(const Stream& stream, int64_t rows) {
  if constexpr (W::kWhole) {
    const int64_t blocks = (rows + Group<W::kThreads>::kPerBlock - 1) / Group<W::kThreads>::kPerBlock;
    check(blocks < (int64_t(1) << 31), "launch", rows, " rows are more than this device takes in one launch");
    return unsigned(blocks);
  }
  constexpr int kByThreads = 2048 / Group<W::kThreads>::kBlockThreads,
                kByMemory = W::kHeld ? 220 * 1024 / (stream_bytes<W, kOperands>() + 1024) : kByThreads;
  return blocks_for(stream, rows, Group<W::kThreads>::kPerBlock, kByThreads < kByMemory ? kByThreads : kByMemory);
}

}  // namespace weft::cuda
