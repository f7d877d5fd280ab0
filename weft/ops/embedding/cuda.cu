#include <cub/device/device_radix_sort.cuh>

#include "weft/ops/embedding/embedding.h"
#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/rows.cuh"

namespace weft::cuda {
namespace {

// Equation: y[p] = w[ids[p]].
// Layout:   w [V, C] and y [P, C] with a row stride each, ids [P].
// Order:    no sums; a warp per row.
// Requires: ids in [0, V); others are reported, and their rows not written.
// Traffic:  one read of ids and of each row that an id selects, one write of y.
template <class T, class Id>
__global__ void __launch_bounds__(128) gather(const T* w, const Id* ids, T* y, int64_t P, int64_t V, int64_t w_stride, int64_t y_stride,
                                              int C, bool aligned, Fault* fault, const char* op) {
  using W = Walk<32, 0, kPerVector<T>>;
  using G = Group<32>;
  for (int64_t p = G::index(); p < P; p += G::count()) {
    const int64_t id = int64_t(ids[p]);
    if (id < 0 || id >= V) {
      if (G::rank() == 0) report(fault, Fault::id_out_of_range, op, id, p, V);
      continue;
    }
    W::each(C, [&](auto at) { put<W>(get<W>(w + id * w_stride, at, aligned), y + p * y_stride, at, aligned); });
  }
}

constexpr int kPlaces = 8;  // of the sorted positions to a warp
constexpr int kChunk = 64;  // places of the sorted positions; at most so many are summed in one go

// Equation: keys[p] = ids[p], V where it is out of range (sorted last and left out); positions[p] = p.
// Layout:   ids, keys, positions [P], packed.
// Order:    no sums; one element a thread.
// Requires: P < 2^31, V < 2^32 - 1. An id out of range is reported.
// Traffic:  one read of ids, one write of keys and positions.
template <class Id>
__global__ void prepare(const Id* ids, int64_t P, int64_t V, uint32_t* keys, uint32_t* positions, Fault* fault, const char* op) {
  const int64_t p = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (p >= P) return;
  const int64_t id = int64_t(ids[p]);
  const bool inside = id >= 0 && id < V;
  if (!inside) report(fault, Fault::id_out_of_range, op, id, p, V);
  keys[p] = inside ? uint32_t(id) : uint32_t(V);
  positions[p] = uint32_t(p);
}

// Positions sorted by id. They are summed in pieces: a piece ends where the id changes and at every 64th place. A run of one
// id that lies across such a place has several pieces; only its first begins anew and only its last does not go on.
struct Runs {
  const uint32_t *keys, *positions;
  int64_t P, V;

  __device__ bool same(int64_t a, int64_t b) const { return b >= 0 && b < P && keys[a] == keys[b]; }
  __device__ bool piece_begins(int64_t k) const { return keys[k] < V && (k % kChunk == 0 || !same(k, k - 1)); }
  __device__ bool goes_back(int64_t k) const { return k % kChunk == 0 && same(k, k - 1); }
  __device__ bool goes_on(int64_t end) const { return end % kChunk == 0 && same(end - 1, end); }

  // End of the piece that begins at k, found by a whole warp: each lane looks at two positions.
  __device__ int64_t piece_end(int64_t k, int lane) const {
    static_assert(kChunk == 64);
    const int64_t stop = (k / kChunk + 1) * kChunk;
    const auto inside = [&](int64_t at) { return at < stop && same(k, at); };
    const unsigned low = __ballot_sync(0xffffffffu, inside(k + lane)), high = __ballot_sync(0xffffffffu, inside(k + 32 + lane));
    return k + (low != 0xffffffffu ? __ffs(int(~low)) - 1 : 32 + (high != 0xffffffffu ? __ffs(int(~high)) - 1 : 32));
  }
  // The end of the run that begins at k, by bisection.
  __device__ int64_t run_end(int64_t k) const {
    int64_t low = k, high = P;  // keys[low] is of the run, keys[high] is not
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      same(k, middle) ? low = middle : high = middle;
    }
    return high;
  }
  // The row of partial sums of a piece: of each 64 places at most one piece goes back, and at most one begins and goes on.
  __device__ int64_t slot(int64_t k) const { return k / kChunk * 2 + !goes_back(k); }
};

// Equation: dw[i] (+)= sum over p with ids[p] = i of dy[p].
// Layout:   dy [P, C] and dw [V, C] with a row stride each; sorted keys and positions [P]; partial [P / 32, C].
// Order:    positions ascending within a piece; the only piece of a run goes to dw, others to rows of partial, which
//           add_partials adds in order. A warp per eight places and strip of columns (blockIdx.y).
// Requires: dw zeroed, or holding the values that are added to.
// Traffic:  one read of dy, one write of dw; rows of partial for runs of several pieces.
template <class T>
__global__ void __launch_bounds__(128) sum_pieces(const Runs runs, const T* dy, int64_t dy_stride, float* dw, int64_t dw_stride,
                                                  float* partial, int C, bool accumulate, bool aligned) {
  constexpr int kWidth = 8, kStrip = 32 * kWidth;
  const int column = int(blockIdx.y) * kStrip + Group<32>::rank() * kWidth, left = C - column;
  const bool whole = aligned && left >= kWidth;
  for (int64_t k = Group<32>::index() * kPlaces; k < (Group<32>::index() + 1) * kPlaces && k < runs.P; ++k) {
    if (!runs.piece_begins(k)) continue;
    const int64_t end = runs.piece_end(k, Group<32>::rank());
    if (left <= 0) continue;
    const auto load = [&](int64_t at) {
      const T* row = dy + int64_t(runs.positions[at]) * dy_stride + column;
      return whole ? load_chunk<T, kWidth>(row) : load_chunk<T, kWidth>(row, left, 0);
    };
    float sum[kWidth];
    const auto head = load(k);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] = head[i];
#pragma unroll 4
    for (int64_t at = k + 1; at < end; ++at) {
      const auto row = load(at);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += row[i];
    }
    const bool lone = !runs.goes_back(k) && !runs.goes_on(end);
    float* to = (lone ? dw + int64_t(runs.keys[k]) * dw_stride : partial + runs.slot(k) * C) + column;
#pragma unroll
    for (int i = 0; i < kWidth; ++i)
      if (i < left) to[i] = lone && accumulate ? to[i] + sum[i] : sum[i];
  }
}

// Equation: dw[i] (+)= sum over the pieces of i's run of partial.
// Layout:   as sum_pieces.
// Order:    a warp per 64 places and strip of 128 columns (blockIdx.y), four to a lane; pieces in order.
// Requires: as sum_pieces.
// Traffic:  one read of partial, one write of the rows of dw that it belongs to.
__global__ void __launch_bounds__(128)
    add_partials(const Runs runs, const float* partial, float* dw, int64_t dw_stride, int C, bool accumulate) {
  // Of 64 places at most one run begins among them and goes on: that of the last place.
  const int64_t first = Group<32>::index() * kChunk, boundary = first + kChunk;
  if (boundary >= runs.P || !runs.same(boundary - 1, boundary) || runs.keys[boundary] >= runs.V || runs.same(boundary - 1, first - 1))
    return;
  const int lane = Group<32>::rank();
  const unsigned low = __ballot_sync(0xffffffffu, runs.same(boundary - 1, first + lane)),
                 high = __ballot_sync(0xffffffffu, runs.same(boundary - 1, first + 32 + lane));
  const int64_t k = first + (low ? __ffs(int(low)) - 1 : 32 + __ffs(int(high)) - 1);
  const int64_t last = (runs.run_end(k) - 1) / kChunk;
  const int column = int(blockIdx.y) * 128 + Group<32>::rank();
  float sum[4] = {};
  const auto add = [&](int64_t slot) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (column + 32 * i < C) sum[i] += partial[slot * C + column + 32 * i];
  };
  add(runs.slot(k));
#pragma unroll 8
  for (int64_t block = boundary / kChunk; block <= last; ++block) add(block * 2);  // these go back
  for (int i = 0; i < 4; ++i) {
    if (column + 32 * i >= C) break;
    float& to = dw[int64_t(runs.keys[k]) * dw_stride + column + 32 * i];
    to = accumulate ? to + sum[i] : sum[i];
  }
}

template <class T, class Id>
void run(Stream& stream, const EmbeddingArgs& a) {
  const Rows w = as_rows(a.w, a.kOp, "w"), y = as_rows(a.y, a.kOp, "y");
  const Launch launch(stream, a.kOp, {&a.w, &a.ids});
  launch(blocks_for(stream, y.rows, 4, 256), 128, 0, gather<T, Id>, data<T>(a.w), data<Id>(a.ids), data<T>(a.y), y.rows, w.rows, w.stride,
         y.stride, columns_of(a.kOp, y), rows_aligned<T>({{&a.w, w.stride}, {&a.y, y.stride}}), launch.fault(), launch.op());
}

void zero_rows(Stream& stream, const EmbeddingBackwardArgs& a, const Rows& dw) {
  if (dw.rows && dw.columns)
    of(stream).enqueue(a.kOp, "zeroing", [&](cudaStream_t s) {
      return cudaMemset2DAsync(data<float>(a.dw), size_t(dw.stride) * 4, 0, size_t(dw.columns) * 4, size_t(dw.rows), s);
    });
}

template <class T, class Id>
void run(Stream& stream, const EmbeddingBackwardArgs& a) {
  const Rows dy = as_rows(a.dy, a.kOp, "dy"), dw = as_rows(a.dw, a.kOp, "dw");
  const int64_t P = a.ids.numel(), V = dw.rows;
  const int C = columns_of(a.kOp, dw);
  const Launch launch(stream, a.kOp, {&a.dy, &a.ids, &a.dw});
  check(P < (int64_t(1) << 31) && V < (int64_t(1) << 32) - 1, a.kOp, "cannot sort ", P, " ids of ", V);
  if (!a.accumulate) zero_rows(stream, a, dw);
  if (P == 0 || C == 0) return;

  const Scratch<uint32_t> keys(stream, 2 * P), positions(stream, 2 * P);
  launch(unsigned((P + 255) / 256), 256, 0, prepare<Id>, data<Id>(a.ids), P, V, keys.data(), positions.data(), launch.fault(), launch.op());
  int bits = 1;
  while (bits < 32 && (V >> bits) > 0) ++bits;
  size_t bytes = 0;
  const auto sort = [&](void* space, cudaStream_t s) {  // without space: how much it takes
    return cub::DeviceRadixSort::SortPairs(space, bytes, keys.data(), keys.data() + P, positions.data(), positions.data() + P, int(P), 0,
                                           bits, s);
  };
  require(sort(nullptr, of(stream).handle()), a.kOp, "asking for the sort's workspace");
  const Scratch<char> space(stream, int64_t(bytes));
  of(stream).enqueue(a.kOp, "sorting", [&](cudaStream_t s) { return sort(space.data(), s); });
  const Runs runs{keys.data() + P, positions.data() + P, P, V};

  const Scratch<float> partial(stream, 2 * (P / kChunk + 1) * C);
  const auto blocks = [&](int64_t places) { return unsigned((P + 4 * places - 1) / (4 * places)); };  // four warps of so many places
  const bool aligned = rows_aligned<T>({{&a.dy, dy.stride}});
  launch(dim3(blocks(kPlaces), unsigned((C + 255) / 256)), 128, 0, sum_pieces<T>, runs, data<T>(a.dy), dy.stride, data<float>(a.dw),
         dw.stride, partial.data(), C, a.accumulate, aligned);
  launch(dim3(blocks(kChunk), unsigned((C + 127) / 128)), 128, 0, add_partials, runs, partial.data(), data<float>(a.dw), dw.stride, C,
         a.accumulate);
}

}  // namespace

void embedding(Stream& stream, const EmbeddingArgs& args) {
  dispatch_device<float, bf16>(
      args.w.dtype, [&]<class T>() { dispatch<int32_t, uint32_t>(args.ids.dtype, [&]<class Id>() { run<T, Id>(stream, args); }); });
}
void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args) {
  dispatch_device<float, bf16>(
      args.dy.dtype, [&]<class T>() { dispatch<int32_t, uint32_t>(args.ids.dtype, [&]<class Id>() { run<T, Id>(stream, args); }); });
}

}  // namespace weft::cuda
