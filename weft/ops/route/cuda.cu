#include "weft/ops/route/route.h"
#include "weft/tile/cuda/fault.cuh"
#include "weft/tile/cuda/rows.cuh"

namespace weft::cuda {
namespace {

constexpr unsigned kAll = 0xffffffffu;

struct Params {
  const int32_t* ids;
  const float* dweights;
  int32_t* to_ids;
  float* weights;
  int64_t rows, stride, to_stride;  // of logits and dlogits
  int E, k;
  bool of_chosen;
  Fault* fault;
  const char* op;
};

__device__ __forceinline__ float most_of_warp(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(kAll, x, distance));
  return x;
}
__device__ __forceinline__ float sum_of_warp(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(kAll, x, distance);
  return x;
}

// The logits of a row in the registers of a warp: element i of a lane is expert 32 i + lane, which may not exist.
template <int kSlots>
struct Row {
  float x[kSlots];
  uint32_t exists = 0, chosen = 0;  // bit i

  template <class T>
  __device__ __forceinline__ void load(const T* from, int E, int lane) {
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      const bool inside = i * 32 + lane < E;
      x[i] = inside ? to_float(from[i * 32 + lane]) : 0.0f;
      exists |= uint32_t(inside) << i;
    }
  }

  // Marks the k largest, the lowest expert among equals. A NaN counts as the largest.
  __device__ __forceinline__ void choose(int k, int lane) {
    for (int j = 0; j < k; ++j) {
      float best = Max::kNone;
      int at = 1 << 20;
#pragma unroll
      for (int i = 0; i < kSlots; ++i) {
        const float v = x[i] != x[i] ? __int_as_float(0x7f800000) : x[i];
        if ((exists & ~chosen) >> i & 1 && (at == 1 << 20 || v > best)) best = v, at = i * 32 + lane;
      }
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2) {
        const float v = __shfl_xor_sync(kAll, best, distance);
        const int other = __shfl_xor_sync(kAll, at, distance);
        if (other < 1 << 20 && (at == 1 << 20 || v > best || (v == best && other < at))) best = v, at = other;
      }
      if (at % 32 == lane) chosen |= 1u << (at / 32);
    }
  }

  // Replaces x by its softmax over the `counted` elements; other elements become 0.
  __device__ __forceinline__ void softmax(uint32_t counted) {
    float m = Max::kNone;
#pragma unroll
    for (int i = 0; i < kSlots; ++i)
      if (counted >> i & 1) m = fmaxf(m, x[i]);
    m = most_of_warp(m);
    if (m == Max::kNone) m = 0;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kSlots; ++i) sum += x[i] = counted >> i & 1 ? expf(x[i] - m) : 0.0f;
    sum = sum_of_warp(sum);
    const float over_sum = sum == 0 ? 0.0f : 1.0f / sum;
#pragma unroll
    for (int i = 0; i < kSlots; ++i) x[i] *= over_sum;
  }
};

// Equation: ids = the k largest of the logits, ascending; weights = their softmax, of all logits or of the chosen.
// Layout:   logits [R, E] with a row stride, ids and weights [R, k].
// Order:    a warp per row, whose lane l has experts l, l + 32, ...; sums by lane ascending, then a butterfly over the lanes.
// Requires: E <= 32 kSlots.
// Traffic:  one read of logits, one write of ids and weights.
template <class T, int kSlots>
__global__ void __launch_bounds__(128) forward(const T* logits, const Params p) {
  using G = Group<32>;
  const int lane = int(threadIdx.x) % 32;
  for (int64_t r = G::index(); r < p.rows; r += G::count()) {
    Row<kSlots> row;
    row.load(logits + r * p.stride, p.E, lane);
    row.choose(p.k, lane);
    row.softmax(p.of_chosen ? row.chosen : row.exists);
    int before = 0;
#pragma unroll
    for (int i = 0; i < kSlots; ++i) {
      const bool chosen = row.chosen >> i & 1;
      const unsigned all = __ballot_sync(kAll, chosen);
      const int64_t to = r * p.k + before + __popc(all & ((1u << lane) - 1));
      if (chosen) p.to_ids[to] = i * 32 + lane, p.weights[to] = row.x[i];
      before += __popc(all);
    }
  }
}

// Equation: dlogits = p (g - s), s = sum(p g), g = dweights of the chosen experts.
// Layout:   logits, dlogits [R, E] with a row stride each, ids and dweights [R, k].
// Order:    as in the forward kernel.
// Requires: E <= 32 kSlots; ids of the forward pass, in [0, E); invalid ones are reported and ignored.
// Traffic:  one read of logits, ids and dweights, one write of dlogits.
template <class T, int kSlots>
__global__ void __launch_bounds__(128) backward(const T* logits, T* dlogits, const Params p) {
  using G = Group<32>;
  const int lane = int(threadIdx.x) % 32;
  for (int64_t r = G::index(); r < p.rows; r += G::count()) {
    Row<kSlots> row;
    row.load(logits + r * p.stride, p.E, lane);
    float g[kSlots] = {};
    for (int j = 0; j < p.k; ++j) {
      const int id = p.ids[r * p.k + j];
      if ((id < 0 || id >= p.E) && lane == 0) report(p.fault, Fault::id_out_of_range, p.op, id, r * p.k + j, p.E);
#pragma unroll
      for (int i = 0; i < kSlots; ++i)
        if (id == i * 32 + lane) g[i] = p.dweights[r * p.k + j], row.chosen |= 1u << i;
    }
    row.chosen &= row.exists;
    const uint32_t counted = p.of_chosen ? row.chosen : row.exists;
    row.softmax(counted);
    float s = 0;
#pragma unroll
    for (int i = 0; i < kSlots; ++i) s = fmaf(row.x[i], g[i], s);
    s = sum_of_warp(s);
#pragma unroll
    for (int i = 0; i < kSlots; ++i)
      if (row.exists >> i & 1) dlogits[r * p.to_stride + i * 32 + lane] = from_float<T>(counted >> i & 1 ? row.x[i] * (g[i] - s) : 0.0f);
  }
}

// Calls f.operator()<kSlots>() with the smallest kSlots for E experts.
template <class F>
void with_slots(int64_t E, F&& f) {
  if (E <= 128) return f.template operator()<4>();
  if (E <= 256) return f.template operator()<8>();
  static_assert(RouteArgs::kMostExperts <= 1024);
  f.template operator()<32>();
}

unsigned blocks(Stream& stream, int64_t rows) { return blocks_for(stream, rows * 32, 128); }

}  // namespace

void route(Stream& stream, const RouteArgs& a) {
  const Rows logits = as_rows(a.logits, a.kOp, "logits");
  const Launch launch(stream, a.kOp, {&a.logits});
  const Params p{.ids = nullptr,
                 .dweights = nullptr,
                 .to_ids = data<int32_t>(a.ids),
                 .weights = data<float>(a.weights),
                 .rows = logits.rows,
                 .stride = logits.stride,
                 .to_stride = 0,
                 .E = int(logits.columns),
                 .k = int(a.ids.shape.back()),
                 .of_chosen = a.of_chosen,
                 .fault = launch.fault(),
                 .op = launch.op()};
  dispatch_device<float, bf16>(a.logits.dtype, [&]<class T>() {
    with_slots(logits.columns, [&]<int kSlots>() { launch(blocks(stream, p.rows), 128, 0, forward<T, kSlots>, data<T>(a.logits), p); });
  });
}

void route_backward(Stream& stream, const RouteBackwardArgs& a) {
  const Rows logits = as_rows(a.logits, a.kOp, "logits"), dlogits = as_rows(a.dlogits, a.kOp, "dlogits");
  const Launch launch(stream, a.kOp, {&a.logits});
  const Params p{.ids = data<int32_t>(a.ids),
                 .dweights = data<float>(a.dweights),
                 .to_ids = nullptr,
                 .weights = nullptr,
                 .rows = logits.rows,
                 .stride = logits.stride,
                 .to_stride = dlogits.stride,
                 .E = int(logits.columns),
                 .k = int(a.ids.shape.back()),
                 .of_chosen = a.of_chosen,
                 .fault = launch.fault(),
                 .op = launch.op()};
  dispatch_device<float, bf16>(a.logits.dtype, [&]<class T>() {
    with_slots(logits.columns, [&]<int kSlots>() {
      launch(blocks(stream, p.rows), 128, 0, backward<T, kSlots>, data<T>(a.logits), data<T>(a.dlogits), p);
    });
  });
}

}  // namespace weft::cuda
