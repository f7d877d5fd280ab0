#include "weft/ops/reduce/reduce.h"
#include "weft/tile/cuda/group.cuh"
#include "weft/tile/cuda/launch.h"
#include "weft/tile/cuda/mma.cuh"
#include "weft/tile/cuda/shared_vector.cuh"
#include "weft/tile/cuda/vector.cuh"

namespace weft::cuda {
namespace {

// A reduction: the term of an element, how two terms combine, and the identity to start from.
template <Reduction K>
struct Kind {
  using Op = std::conditional_t<K == Reduction::max, Max, Sum>;
  static constexpr float kIdentity = Op::kNone;
  __device__ __forceinline__ static float term(float v) { return K == Reduction::sum_squares ? v * v : v; }
  __device__ __forceinline__ static float combine(float a, float b) { return Op()(a, b); }
};

constexpr int64_t kSegment = 16384;   // elements of a row to one group: 64 to each of 256 threads, so a long row fills many groups
constexpr int64_t kWarpRow = 512;     // the longest row that a warp reduces: 16 elements a lane; a block takes longer ones
constexpr int kRowBlocks = 64;        // blocks of a multiprocessor: twice its resident ones, so that none is idle at the end
constexpr int64_t kMostGrid = 65535;  // CUDA's limit along y and z
// Chunks of n rows, by n alone: 16 rows or more each, and at most 256, which eight threads fold 32 each.
constexpr int64_t kChunkRows = 16, kMostChunks = 256;

// Equation: y[o, segment] = sum over the segment of term(x[o, i]).
// Layout:   x [outer, n] with a stride between rows, y [outer, segments].
// Order:    a group of threads per segment: thread t takes elements t, t + threads, ..., then over the group (group.cuh).
// Requires: unit stride within a row (the contract's). n = 0 gives the identity.
// Traffic:  one read of x, one write of y.
template <Reduction K, bool kTerms, int kThreads, class T, class Y>
__global__ void __launch_bounds__(Group<kThreads>::kBlockThreads)
    along_rows(const T* x, int64_t stride, int64_t n, int64_t segments, int64_t tasks, Y* y) {
  using G = Group<kThreads>;
  G group;
  for (int64_t task = G::index(); task < tasks; task += G::count()) {
    const int64_t first = task % segments * kSegment, last = first + kSegment < n ? first + kSegment : n;
    const T* row = x + task / segments * stride;
    float total = Kind<K>::kIdentity;
#pragma unroll 4
    for (int64_t i = first + G::rank(); i < last; i += kThreads) {
      const float v = to_float(row[i]);
      total = Kind<K>::combine(total, kTerms ? Kind<K>::term(v) : v);
    }
    total = group.reduce(total, typename Kind<K>::Op());
    if (G::rank() == 0) y[task] = from_float<Y>(total);
  }
}

template <Reduction K, bool kTerms, class T, class Y>
void reduce_rows(const Launch& launch, Stream& stream, const T* x, int64_t stride, int64_t n, int64_t segments, int64_t outer, Y* y) {
  const int64_t tasks = outer * segments;
  if (n <= kWarpRow)
    launch(blocks_for(stream, tasks, 4, kRowBlocks), 128, 0, along_rows<K, kTerms, 32, T, Y>, x, stride, n, segments, tasks, y);
  else
    launch(blocks_for(stream, tasks, 1, kRowBlocks), 256, 0, along_rows<K, kTerms, 256, T, Y>, x, stride, n, segments, tasks, y);
}

// Equation: y[o, chunk, j] = sum over the chunk's i of term(x[o, i, j]).
// Layout:   x [outer, n, inner] with strides for outer and n, y [outer, chunks, inner].
// Order:    a thread per (o, chunk, j), i in order.
// Requires: unit stride in inner (the contract's). n = 0 gives the identity.
// Traffic:  one read of x, coalesced along inner; one write of y.
template <Reduction K, class T, class Y>
__global__ void across_rows(const T* x, ReduceSpan s, int64_t chunks, int64_t length, Y* y) {
  const int64_t j = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, chunk = blockIdx.y;
  if (j >= s.inner) return;
  const int64_t last = (chunk + 1) * length < s.n ? (chunk + 1) * length : s.n;
  for (int64_t o = blockIdx.z; o < s.outer; o += gridDim.z) {
    float total = Kind<K>::kIdentity;
#pragma unroll 8
    for (int64_t i = chunk * length; i < last; ++i) {
      const float v = to_float(x[o * s.outer_stride + i * s.stride + j]);
      total = Kind<K>::combine(total, Kind<K>::term(v));
    }
    y[(o * chunks + chunk) * s.inner + j] = from_float<Y>(total);
  }
}

template <Reduction K, class T, class Y>
void reduce_columns(const Launch& launch, const T* x, const ReduceSpan& s, int64_t chunks, Y* y) {
  const int64_t length = (s.n + chunks - 1) / chunks;
  const dim3 grid(unsigned((s.inner + 127) / 128), unsigned(chunks), unsigned(std::min(s.outer, kMostGrid)));
  launch(grid, 128, 0, across_rows<K, T, Y>, x, s, chunks, length, y);
}

// Rows of which a warp copies 32 pieces of 16 bytes each into shared memory, up to kGroups - 1 groups of rows before it adds them. A lane
// reads what it copied itself, so that no barrier is needed.
class PiecesAhead {
 public:
  static constexpr int kGroup = 4, kGroups = 8;              // rows of one group of copies; groups in the ring
  static constexpr int kBytes = kGroup * kGroups * 32 * 16;  // 16 KiB: 13 blocks have 180 KiB in flight, 6 of a narrow matrix 80

  __device__ __forceinline__ explicit PiecesAhead(void* shared) : shared_(shared_address(shared) + threadIdx.x * 16) {}

  // take(piece) for each of `rows` rows from `at` on, in order.
  template <class T, class F>
  __device__ __forceinline__ void each(const T* at, int64_t stride, int64_t rows, F&& take) const {
    const auto fetch = [&](int64_t group) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k)
        if (group * kGroup + k < rows) copy_async(slot(group, k), at + (group * kGroup + k) * stride);
      copies_end();  // past the last row too: copies_wait counts groups
    };
#pragma unroll 1
    for (int group = 0; group < kGroups - 1; ++group) fetch(group);
#pragma unroll 1
    for (int64_t group = 0; group * kGroup < rows; ++group) {
      fetch(group + kGroups - 1);
      copies_wait<kGroups - 1>();
      Chunk<T, kPerVector<T>> piece[kGroup];
#pragma unroll
      for (int k = 0; k < kGroup; ++k) *reinterpret_cast<uint4*>(piece[k].at) = shared_vector(slot(group, k));
#pragma unroll
      for (int k = 0; k < kGroup; ++k)
        if (group * kGroup + k < rows) take(piece[k]);
    }
  }

 private:
  __device__ __forceinline__ uint32_t slot(int64_t group, int k) const {
    return shared_ + uint32_t((int(group) % kGroups * kGroup + k) * 512);
  }
  uint32_t shared_;
};

// Equation: y[o, chunk, j] = sum over the chunk's i of term(x[o, i, j]).
// Layout:   x [outer, n, inner] with strides for outer and n, y [outer, chunks, inner].
// Order:    a thread per (o, chunk) and sixteen bytes along inner, i in order: as across_rows.
// Requires: rows of whole sixteen bytes, so aligned; blocks of a warp.
// Traffic:  one read of x, one write of y.
template <Reduction K, class T>
__global__ void __launch_bounds__(32) across_wide_rows(const T* x, ReduceSpan s, int64_t chunks, int64_t length, float* y) {
  constexpr int kWidth = kPerVector<T>;
  __shared__ __align__(16) unsigned char shared[PiecesAhead::kBytes];
  const PiecesAhead pieces(shared);
  const int64_t j = (int64_t(blockIdx.x) * 32 + threadIdx.x) * kWidth, chunk = blockIdx.y, first = chunk * length;
  if (j >= s.inner) return;
  const int64_t rows = first + length < s.n ? length : s.n - first;
  for (int64_t o = blockIdx.z; o < s.outer; o += gridDim.z) {
    Chunk<float, kWidth> total;
#pragma unroll
    for (int c = 0; c < kWidth; ++c) total.at[c] = Kind<K>::kIdentity;
    pieces.each(x + o * s.outer_stride + first * s.stride + j, s.stride, rows, [&](const Chunk<T, kWidth>& piece) {
#pragma unroll
      for (int c = 0; c < kWidth; ++c) total.at[c] = Kind<K>::combine(total.at[c], Kind<K>::term(piece[c]));
    });
    store_chunk(total, y + (o * chunks + chunk) * s.inner + j);
  }
}

// Equation: y[o, j] = sum over chunks of partial[o, chunk, j].
// Layout:   partial [outer, chunks, inner], y [outer, inner], contiguous.
// Order:    eight runs of consecutive chunks, each in order; then the runs in order.
// Requires: blocks of 32 by 8 threads, the first along inner.
// Traffic:  one read of partial, one write of y.
template <Reduction K, class Y>
__global__ void __launch_bounds__(256) fold_chunks(const float* partial, int64_t outer, int64_t chunks, int64_t inner, Y* y) {
  __shared__ float runs[8][32];
  const int64_t j = int64_t(blockIdx.x) * 32 + threadIdx.x, run = (chunks + 7) / 8;
  const int64_t first = run * threadIdx.y, last = first + run < chunks ? first + run : chunks;
  for (int64_t o = blockIdx.y; o < outer; o += gridDim.y) {
    float total = Kind<K>::kIdentity;
    if (j < inner)
#pragma unroll 32
      for (int64_t chunk = first; chunk < last; ++chunk) total = Kind<K>::combine(total, partial[(o * chunks + chunk) * inner + j]);
    runs[threadIdx.y][threadIdx.x] = total;
    __syncthreads();
    if (threadIdx.y == 0 && j < inner) {
      for (int r = 1; r < 8; ++r) total = Kind<K>::combine(total, runs[r][threadIdx.x]);
      y[o * inner + j] = from_float<Y>(total);
    }
    __syncthreads();
  }
}

template <Reduction K, class T>
void reduce_to_chunks(const Launch& launch, const T* x, const ReduceSpan& s, int64_t chunks, float* partial) {
  constexpr int64_t kWidth = kPerVector<T>;
  if (s.inner % kWidth != 0 || s.stride % kWidth != 0 || s.outer_stride % kWidth != 0 || !aligned16(x))
    return reduce_columns<K>(launch, x, s, chunks, partial);
  const dim3 grid(unsigned((s.inner + 32 * kWidth - 1) / (32 * kWidth)), unsigned(chunks), unsigned(std::min(s.outer, kMostGrid)));
  launch(grid, 32, 0, across_wide_rows<K, T>, x, s, chunks, (s.n + chunks - 1) / chunks, partial);
}

template <Reduction K, class T, class Y>
void forward(Stream& stream, const ReduceArgs& a, const ReduceSpan& s) {
  const Launch launch(stream, a.kOp, {&a.x, &a.y});
  const T* x = data<T>(a.x);
  Y* y = data<Y>(a.y);
  if (s.outer == 0 || s.inner == 0) return;
  if (s.inner == 1) {
    const int64_t segments = std::max<int64_t>(1, (s.n + kSegment - 1) / kSegment);
    if (segments == 1) return reduce_rows<K, true>(launch, stream, x, s.outer_stride, s.n, 1, s.outer, y);
    check(segments <= kSegment, a.kOp, "an axis of ", s.n, " elements is longer than this device takes");
    const Scratch<float> partial(stream, s.outer * segments);
    reduce_rows<K, true>(launch, stream, x, s.outer_stride, s.n, segments, s.outer, partial.data());
    return reduce_rows<K, false>(launch, stream, static_cast<const float*>(partial.data()), segments, segments, 1, s.outer, y);
  }
  const int64_t chunks = std::clamp<int64_t>(s.n / kChunkRows, 1, kMostChunks);
  if (chunks == 1) return reduce_columns<K>(launch, x, s, 1, y);
  const Scratch<float> partial(stream, s.outer * chunks * s.inner);
  reduce_to_chunks<K>(launch, x, s, chunks, partial.data());
  const dim3 grid(unsigned((s.inner + 31) / 32), unsigned(std::min(s.outer, kMostGrid)));
  launch(grid, dim3(32, 8), 0, fold_chunks<K, Y>, static_cast<const float*>(partial.data()), s.outer, chunks, s.inner, y);
}

template <class T, class G, class Y>
struct Spread {
  const T* x;
  const Y* y;
  const G* dy;
  T* dx;
  ReduceSpan from, to;
};

// Equation: dx[o, i, j] = dy[o, j] (sum), 2 x[o, i, j] dy[o, j] (sum_squares).
// Layout:   x, dx [outer, n, inner] with strides for outer and n each, dy [outer, inner].
// Order:    elementwise, one to a thread.
// Requires: unit stride in inner, or along n when inner = 1 (the contract's).
// Traffic:  one read of dy (and of x for sum_squares), one write of dx.
template <bool kSquares, class T, class G, class Y>
__global__ void spread(const Spread<T, G, Y> p) {
  const int64_t count = p.to.outer * p.to.n * p.to.inner;
  for (int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; at < count; at += int64_t(gridDim.x) * blockDim.x) {
    const int64_t j = at % p.to.inner, i = at / p.to.inner % p.to.n, o = at / p.to.inner / p.to.n;
    float g = to_float(p.dy[o * p.to.inner + j]);
    if constexpr (kSquares) {
      const float v = to_float(p.x[o * p.from.outer_stride + i * p.from.stride + j]);
      g = (v + v) * g;
    }
    p.dx[o * p.to.outer_stride + i * p.to.stride + j] = from_float<T>(g);
  }
}

// Equation: dx[o, i, j] = dy[o, j] where i is the first with x[o, i, j] = y[o, j] (NaN equals NaN here), else 0.
// Layout:   as spread, y [outer, inner].
// Order:    a warp per (o, j): 32 consecutive i at a time, until the first is found.
// Requires: as spread.
// Traffic:  one read of x, y and dy, one write of dx; coalesced where inner = 1.
template <class T, class G, class Y>
__global__ void __launch_bounds__(128) to_first_maximum(const Spread<T, G, Y> p) {
  const int64_t tasks = p.to.outer * p.to.inner;
  for (int64_t task = Group<32>::index(); task < tasks; task += Group<32>::count()) {
    const int64_t o = task / p.to.inner, j = task % p.to.inner;
    const float maximum = to_float(p.y[task]), dy = to_float(p.dy[task]);
    bool given = false;
    for (int64_t start = 0; start < p.to.n; start += 32) {
      const int64_t i = start + Group<32>::rank();
      const float v = i < p.to.n ? to_float(p.x[o * p.from.outer_stride + i * p.from.stride + j]) : 0.0f;
      const bool hit = i < p.to.n && !given && (v == maximum || (v != v && maximum != maximum));
      const unsigned hits = __ballot_sync(0xffffffffu, hit);
      const bool mine = hits != 0 && Group<32>::rank() == __ffs(int(hits)) - 1;
      if (i < p.to.n) p.dx[o * p.to.outer_stride + i * p.to.stride + j] = from_float<T>(mine ? dy : 0.0f);
      given |= hits != 0;
    }
  }
}

template <class T, class G, class Y>
void backward(Stream& stream, const ReduceBackwardArgs& a) {
  const ReduceSpan to = reduce_span(a.dx, a.axis, a.kOp, "dx"), from = a.kind == Reduction::sum ? to : reduce_span(a.x, a.axis, a.kOp, "x");
  const Spread<T, G, Y> p{data<T>(a.x), data<Y>(a.y), data<G>(a.dy), data<T>(a.dx), from, to};
  const Launch launch(stream, a.kOp, {&a.dx});
  const int64_t count = to.outer * to.n * to.inner;
  switch (a.kind) {
    case Reduction::sum: return launch(blocks_for(stream, count, 256), 256, 0, spread<false, T, G, Y>, p);
    case Reduction::sum_squares: return launch(blocks_for(stream, count, 256), 256, 0, spread<true, T, G, Y>, p);
    case Reduction::max:
      return launch(count ? blocks_for(stream, to.outer * to.inner, 4, kRowBlocks) : 0, 128, 0, to_first_maximum<T, G, Y>, p);
  }
}

}  // namespace

void reduce(Stream& stream, const ReduceArgs& args) {
  const ReduceSpan span = reduce_span(args.x, args.axis, args.kOp, "x");
  dispatch_device<float, bf16>(args.x.dtype, [&]<class T>() {
    const auto run = [&]<class Y>() {
      switch (args.kind) {
        case Reduction::sum: return forward<Reduction::sum, T, Y>(stream, args, span);
        case Reduction::sum_squares: return forward<Reduction::sum_squares, T, Y>(stream, args, span);
        case Reduction::max: return forward<Reduction::max, T, Y>(stream, args, span);
      }
    };
    args.y.dtype == DType::f32 ? run.template operator()<float>() : run.template operator()<T>();
  });
}

void reduce_backward(Stream& stream, const ReduceBackwardArgs& args) {
  dispatch_device<float, bf16>(args.dx.dtype, [&]<class T>() {
    const auto run = [&]<class G>() {
      args.y&& args.y.dtype != DType::f32 ? backward<T, G, T>(stream, args) : backward<T, G, float>(stream, args);
    };
    args.dy.dtype == DType::f32 ? run.template operator()<float>() : run.template operator()<T>();
  });
}

}  // namespace weft::cuda
