#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/cross_entropy/digest_term.h"
#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/math.cuh"
#include "weft/tile/cuda/mma.cuh"
#include "weft/tile/cuda/rows.cuh"
#include "weft/tile/cuda/shared_vector.cuh"

namespace weft::cuda {
namespace {

// Shared by all rows, on the device: the divisor (0: a target is out of range and nothing is written).
struct Shared {
  float count;
  int targets, wrong;
};

// Equation: count = the number of targets that are not padding, or the caller's.
// Layout:   targets [N]; shared one struct, which rows() and total() read.
// Order:    one block; integers, so any order gives the same.
// Requires: a target is padding or in [0, V), else a fault, and nothing more is done.
// Traffic:  one read of targets.
template <class Id>
__global__ void count_targets(const Id* targets, int64_t rows, int64_t V, int64_t pad_id, const float* count, Shared* shared, Fault* fault,
                              const char* op) {
  __shared__ int counted, wrong;
  if (threadIdx.x == 0) counted = wrong = 0;
  __syncthreads();
  int mine = 0;
  for (int64_t r = threadIdx.x; r < rows; r += blockDim.x) {
    const int64_t id = int64_t(targets[r]);
    if (pad_id != -1 && id == pad_id) continue;
    if (id < 0 || id >= V) {
      wrong = 1;
      report(fault, Fault::target_out_of_range, op, id, r, V);
    }
    ++mine;
  }
  atomicAdd(&counted, mine);
  __syncthreads();
  if (threadIdx.x == 0) *shared = {count ? *count : float(counted), counted, wrong};
}

template <class T, class G, class Id>
struct Params {
  const T* logits;
  const Id* targets;
  G* dlogits;
  float *losses, *maxima, *log_sums;  // the last two may be null
  const Shared* shared;
  int64_t rows, stride, d_stride, pad_id;
  int columns;
  bool aligned;
};

constexpr int kThreads = 1024;
constexpr int kWidth = 8;              // elements of a chunk: 16 bytes of bf16, of a gradient too. It sets the order of a row's sum
constexpr int kMostHeld = 112 * 1024;  // bytes of a row in shared memory: two blocks to a multiprocessor

// The sum of e^(x - most) over a part of a row.
struct ExpSum {
  float most = Max::kNone, sum = 0;
};

template <class T>
__device__ __forceinline__ void add(ExpSum& e, const Chunk<T, kWidth>& piece, int count) {
  float most = Max::kNone;
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    if (i < count) most = fmaxf(most, piece[i]);
  if (most > e.most) {  // rare after the first few
    e.sum *= exp_of_difference<T>(e.most, most);
    e.most = most;
  }
  const float base = e.most == Max::kNone ? 0.0f : e.most;  // nothing but -infinity so far: each term is 0; a NaN stays one
#pragma unroll
  for (int i = 0; i < kWidth; ++i)
    if (i < count) e.sum += exp_of_difference<T>(piece[i], base);
}

template <class P>
__device__ __forceinline__ void put_row(const P& p, int64_t r, float most, float at_target, float log_sum) {
  p.losses[r] = (most - at_target) + log_sum;
  if (p.maxima) p.maxima[r] = most;
  if (p.log_sums) p.log_sums[r] = log_sum;
}

// Equation: digests[r] = the digest of the bits of row r (digest_term.h); 0 where the target is padding.
// Layout:   logits [N, V] with a row stride, as unsigned integers of the element's size; targets, digests [N].
// Order:    a block per row; sums of integers, so any order gives the same.
// Requires: 1024 threads; targets counted and found in range.
// Traffic:  one read of logits.
template <class Bits, class Id>
__global__ void __launch_bounds__(kThreads) digest_rows(const Bits* logits, const Id* targets, int64_t rows, int64_t stride, int columns,
                                                        int64_t pad_id, const Shared* shared, uint32_t* digests) {
  __shared__ uint32_t total;
  if (shared->wrong) return;
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    const bool padding = pad_id != -1 && int64_t(targets[r]) == pad_id;
    uint32_t sum = 0;
    for (int j = int(threadIdx.x); j < columns && !padding; j += kThreads) sum += digest_term(logits[r * stride + j], uint32_t(j));
    atomicAdd(&total, sum);
    __syncthreads();
    if (threadIdx.x == 0) digests[r] = total;
    __syncthreads();  // before the next row clears the total
  }
}

// Equation: loss_r = m - x_t + log s, s = sum(exp(x - m)); dlogits = (exp(x - m) / s - [j = t]) / count.
// Layout:   logits, dlogits [N, V] with a row stride each (dlogits may be logits), targets, losses, maxima, log_sums [N].
// Order:    a block per row; thread t adds chunks t, t + 1024, ... of 8 elements against its own running maximum, then the block adds
//           its threads' sums against the row's (group.cuh). By V alone: with and without a gradient, of any dtype, held or not.
// Requires: unit stride within a row (the contract's); targets counted and found in range. kHeld: aligned rows that fit
//           into shared memory.
// Traffic:  one read of logits, one write of dlogits; a row that is not held is read a second time, mostly from L2.
template <class T, class G, class Id, bool kHeld>
__global__ void __launch_bounds__(kThreads, 2) rows(const Params<T, G, Id> p) {
  static_assert(!kHeld || std::is_same_v<T, G>);
  extern __shared__ __align__(16) unsigned char memory[];
  if (p.shared->wrong) return;
  Group<kThreads> group;
  const auto larger = [](float a, float b) { return fmaxf(a, b); };
  const float over_count = 1.0f / p.shared->count;
  for (int64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
    const T* row = p.logits + r * p.stride;
    G* out = p.dlogits ? p.dlogits + r * p.d_stride : nullptr;
    const int64_t target = int64_t(p.targets[r]);
    const auto each = [&](auto&& body) {  // body(first column, elements there)
#pragma unroll 4
      for (int first = int(threadIdx.x) * kWidth; first < p.columns; first += kThreads * kWidth)
        body(first, min(kWidth, p.columns - first));
    };
    const auto write = [&](const Chunk<G, kWidth>& piece, int first, int count) {
      p.aligned&& count == kWidth ? stream_chunk(piece, out + first) : store_chunk(piece, out + first, count);
    };
    if (p.pad_id != -1 && target == p.pad_id) {
      if (threadIdx.x == 0) put_row(p, r, 0, 0, 0);
      Chunk<G, kWidth> zero;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) zero.set(i, 0);
      if (out) each([&](int first, int count) { write(zero, first, count); });
      continue;
    }
    const float at_target = to_float(row[target]);  // before an in-place gradient overwrites it
    T* held = reinterpret_cast<T*>(memory);         // each thread reads back its own chunks alone
    if constexpr (kHeld) {
      each([&](int first, int count) {
#pragma unroll
        for (int i = 0; i < kWidth; i += kPerVector<T>)
          if (i < count) copy_async(shared_address(held + first + i), row + first + i, min(kPerVector<T>, count - i) * int(sizeof(T)));
      });
      copies_end();
      copies_wait<0>();
    }
    const auto read = [&](int first, int count) {
      if constexpr (kHeld)
        return load_chunk<T, kWidth>(held + first);
      else
        return p.aligned && count == kWidth ? load_chunk<T, kWidth>(row + first) : load_chunk<T, kWidth>(row + first, count, 0);
    };
    ExpSum mine;
    each([&](int first, int count) { add(mine, read(first, count), count); });
    const float top = group.reduce(mine.most, larger), m = top == Max::kNone ? 0.0f : top;
    const float s = group.sum(mine.most == Max::kNone ? mine.sum : mine.sum * exp_of_difference<T>(mine.most, m));
    if (threadIdx.x == 0) put_row(p, r, top, at_target, logf(s));
    if (!out) continue;
    const float factor = over_count / s;
    each([&](int first, int count) {
      const auto piece = read(first, count);
      Chunk<G, kWidth> gradient;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) gradient.set(i, exp_of_difference<T>(piece[i], m) * factor);
      write(gradient, first, count);
    });
    // The element of the target, by the thread that wrote its chunk.
    if (int(target) / kWidth % kThreads == int(threadIdx.x))
      out[target] = from_float<G>(exp_of_difference<T>(at_target, m) * factor - over_count);
  }
}

// The first chunks of a long row of f32, up to kMostSlots for each thread, in shared memory. Chunks of a slot are copied by their warp in
// whole lines: lane l copies the pieces l and l + 32 of 16 bytes, and thread t reads the pieces 2 t and 2 t + 1. Every second group of
// eight pieces is stored with neighbours exchanged, so that eight threads read from different banks.
class HeldRow {
 public:
  static constexpr int kMostSlots = 7, kSlotBytes = kThreads * kWidth * 4;  // seven fill 224 of 227 KiB

  __device__ __forceinline__ HeldRow(void* memory, int slots) : memory_(shared_address(memory)), slots_(slots) {}

  // Copies slot j of a row, which its warp has read before (row = null: of no row). One group of copies.
  __device__ __forceinline__ void fetch(int j, const float* row, int columns) const {
    __syncwarp();
    if (row && j < slots_)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int piece = int(threadIdx.x) / 32 * 64 + half * 32 + int(threadIdx.x) % 32, column = (j * kThreads * 2 + piece) * 4;
        const int left = columns - column;
        copy_async(address(j, piece), row + (left > 0 ? column : 0), left >= 4 ? 16 : left > 0 ? left * 4 : 0);
      }
    copies_end();
  }
  // Waits for slot j, where the slots after it may still be on their way.
  template <int j>
  __device__ __forceinline__ static void wait() {
    copies_wait<kMostSlots - 1 - j>();
    __syncwarp();
  }
  __device__ __forceinline__ Chunk<float, kWidth> chunk(int j) const {
    Chunk<float, kWidth> chunk;
#pragma unroll
    for (int half = 0; half < 2; ++half) reinterpret_cast<uint4*>(chunk.at)[half] = shared_vector(address(j, int(threadIdx.x) * 2 + half));
    return chunk;
  }

 private:
  __device__ __forceinline__ uint32_t address(int j, int piece) const {
    return memory_ + uint32_t(j * kSlotBytes + (piece ^ (piece >> 3 & 1)) * 16);
  }
  uint32_t memory_;
  int slots_;
};

// body.operator()<j>() for each slot in order.
template <class F>
__device__ __forceinline__ void each_slot(F&& body) {
  [&]<int... j>(std::integer_sequence<int, j...>) {
    (body.template operator()<j>(), ...);
  }(std::make_integer_sequence<int, HeldRow::kMostSlots>());
}

// Equation: as rows().
// Layout:   as rows(); f32 logits in aligned rows.
// Order:    as rows().
// Requires: as rows(); a gradient; one block to a multiprocessor, of `slots` slots in shared memory (HeldRow).
// Traffic:  one read of logits, one write of dlogits. While a row's gradient is written the next row's slots are loaded. Elements beyond
//           the slots are read a second time, at once and last ones first: mostly from L2.
template <class G, class Id>
__global__ void __launch_bounds__(kThreads, 1) long_rows(const Params<float, G, Id> p, int slots) {
  extern __shared__ __align__(16) unsigned char memory[];
  if (p.shared->wrong) return;
  const HeldRow held(memory, slots);
  Group<kThreads> group;
  const auto larger = [](float a, float b) { return fmaxf(a, b); };
  const float over_count = 1.0f / p.shared->count;
  const int beyond = (slots * kThreads + int(threadIdx.x)) * kWidth;  // this thread's first column past the slots
  const auto row_at = [&](int64_t r) { return r < p.rows ? p.logits + r * p.stride : nullptr; };
  int64_t r = blockIdx.x;
  each_slot([&]<int j>() { held.fetch(j, row_at(r), p.columns); });
  int64_t target = r < p.rows ? int64_t(p.targets[r]) : 0;
  for (int64_t next; r < p.rows; r = next) {
    next = r + gridDim.x;
    const int64_t next_target = next < p.rows ? int64_t(p.targets[next]) : 0;
    const float *row = row_at(r), *next_row = row_at(next);
    G* out = p.dlogits + r * p.d_stride;
    const auto write = [&](const Chunk<G, kWidth>& piece, int first) {
      first + kWidth <= p.columns ? stream_chunk(piece, out + first) : store_chunk(piece, out + first, p.columns - first);
    };
    if (p.pad_id != -1 && target == p.pad_id) {
      if (threadIdx.x == 0) put_row(p, r, 0, 0, 0);
      Chunk<G, kWidth> zero;
#pragma unroll
      for (int i = 0; i < kWidth; ++i) zero.set(i, 0);
      for (int first = int(threadIdx.x) * kWidth; first < p.columns; first += kThreads * kWidth) write(zero, first);
      HeldRow::wait<HeldRow::kMostSlots - 1>();
      each_slot([&]<int j>() { held.fetch(j, next_row, p.columns); });
    } else {
      const float at_target = row[target];  // before an in-place gradient overwrites it
      ExpSum mine;
      const auto take = [&](const Chunk<float, kWidth>& piece, int first) {
        first + kWidth <= p.columns ? add(mine, piece, kWidth) : add(mine, piece, p.columns - first);
      };
      each_slot([&]<int j>() {
        HeldRow::wait<j>();
        const int first = (j * kThreads + int(threadIdx.x)) * kWidth;
        if (j < slots && first < p.columns) take(held.chunk(j), first);
      });
      const auto read = [&](int first) {
        return first + kWidth <= p.columns ? load_chunk<float, kWidth>(row + first)
                                           : load_chunk<float, kWidth>(row + first, p.columns - first, 0);
      };
#pragma unroll 4
      for (int first = beyond; first < p.columns; first += kThreads * kWidth) take(read(first), first);
      const float top = group.reduce(mine.most, larger), m = top == Max::kNone ? 0.0f : top;
      const float s = group.sum(mine.most == Max::kNone ? mine.sum : mine.sum * exp_of_difference<float>(mine.most, m));
      if (threadIdx.x == 0) put_row(p, r, top, at_target, logf(s));
      const float factor = over_count / s;
      const auto put_gradient = [&](const Chunk<float, kWidth>& piece, int first) {
        Chunk<G, kWidth> gradient;
#pragma unroll
        for (int i = 0; i < kWidth; ++i) gradient.set(i, exp_of_difference<float>(piece[i], m) * factor);
        write(gradient, first);
      };
      if (beyond < p.columns) {
        const int last = beyond + (p.columns - 1 - beyond) / (kThreads * kWidth) * (kThreads * kWidth);
#pragma unroll 4
        for (int first = last; first >= beyond; first -= kThreads * kWidth) put_gradient(read(first), first);
      }
      each_slot([&]<int j>() {
        const int first = (j * kThreads + int(threadIdx.x)) * kWidth;
        if (j < slots && first < p.columns) put_gradient(held.chunk(j), first);
        held.fetch(j, next_row, p.columns);
      });
      // The element of the target, by the thread that wrote its chunk.
      if (int(target) / kWidth % kThreads == int(threadIdx.x))
        out[target] = from_float<G>(exp_of_difference<float>(at_target, m) * factor - over_count);
    }
    target = next_target;
  }
}

// Equation: loss (+)= sum of losses / count.
// Layout:   losses [N], loss a scalar.
// Order:    one block; thread t adds rows t, t + 1024, ..., then the block (group.cuh).
// Requires: 1024 threads; no target out of range, else nothing is written.
// Traffic:  one read of losses.
__global__ void total(const float* losses, int64_t rows, const Shared* shared, float* loss, bool accumulate) {
  if (shared->wrong) return;
  Group<1024> group;
  float sum = 0;
  for (int64_t r = threadIdx.x; r < rows; r += 1024) sum += losses[r];
  sum = group.sum(sum);
  if (threadIdx.x > 0) return;
  const float mean = shared->targets ? sum / shared->count : 0.0f;
  *loss = accumulate ? *loss + mean : mean;
}

template <class G, class Id>
void launch_long_rows(const Launch& launch, const Stream& stream, const Params<float, G, Id>& p) {
  const int64_t room = (shared_memory(stream) - kStaticShared) / HeldRow::kSlotBytes;
  const int64_t wanted = (int64_t(p.columns) + kThreads * kWidth - 1) / (kThreads * kWidth);
  const int slots = int(std::min<int64_t>({room, wanted, HeldRow::kMostSlots}));
  launch(blocks_for(stream, p.rows, 1, 1), kThreads, size_t(slots) * HeldRow::kSlotBytes, long_rows<G, Id>, p, slots);
}

template <class T, class G, class Id>
void run(Stream& stream, const CrossEntropyArgs& a) {
  const Rows x = as_rows(a.logits, a.kOp, "logits"), dx = a.dlogits ? as_rows(a.dlogits, a.kOp, "dlogits") : Rows{};
  const Scratch<Shared> shared(stream, 1);
  const Scratch<float> scratch(stream, a.losses ? 0 : x.rows);
  float* losses = a.losses ? data<float>(a.losses) : scratch.data();
  const Launch launch(stream, a.kOp, {&a.logits, &a.targets});
  launch(1, 1024, 0, count_targets<Id>, data<Id>(a.targets), x.rows, x.columns, a.pad_id, data<float>(a.count), shared.data(),
         launch.fault(), launch.op());
  const Params<T, G, Id> p{data<T>(a.logits),
                           data<Id>(a.targets),
                           data<G>(a.dlogits),
                           losses,
                           data<float>(a.maxima),
                           data<float>(a.log_sums),
                           shared.data(),
                           x.rows,
                           x.stride,
                           dx.stride,
                           a.pad_id,
                           columns_of(a.kOp, x),
                           rows_aligned<T>({{&a.logits, x.stride}}) && rows_aligned<G>({{&a.dlogits, dx.stride}})};
  if (a.digests) {  // before an in-place gradient overwrites the logits
    using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
    launch(blocks_for(stream, x.rows, 1, 2), kThreads, 0, digest_rows<Bits, Id>, reinterpret_cast<const Bits*>(p.logits), p.targets, p.rows,
           p.stride, p.columns, p.pad_id, p.shared, data<uint32_t>(a.digests));
  }
  const int64_t bytes = (x.columns + kWidth - 1) / kWidth * kWidth * int64_t(sizeof(T));
  const unsigned blocks = blocks_for(stream, x.rows, 1, 2);
  const bool held = p.aligned && bytes <= std::min<int64_t>(kMostHeld, shared_memory(stream) - kStaticShared);
  const auto start = [&] {
    if constexpr (std::is_same_v<T, G>)
      if (held) return launch(blocks, kThreads, size_t(bytes), rows<T, G, Id, true>, p);
    if constexpr (std::is_same_v<T, float>)
      if (p.aligned && p.dlogits && bytes > kMostHeld) return launch_long_rows(launch, stream, p);
    launch(blocks, kThreads, 0, rows<T, G, Id, false>, p);
  };
  start();
  launch(1, 1024, 0, total, losses, x.rows, shared.data(), data<float>(a.loss), a.accumulate);
}

}  // namespace

void cross_entropy(Stream& stream, const CrossEntropyArgs& args) {
  dispatch_device<float, bf16>(args.logits.dtype, [&]<class T>() {
    dispatch<int32_t, uint32_t>(args.targets.dtype, [&]<class Id>() {
      args.dlogits&& args.dlogits.dtype == DType::bf16 ? run<T, __nv_bfloat16, Id>(stream, args) : run<T, T, Id>(stream, args);
    });
  });
}

}  // namespace weft::cuda
