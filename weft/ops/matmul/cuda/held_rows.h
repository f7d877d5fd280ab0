// Host side of held_rows.cuh: grid and shared memory of a launch.
#pragma once

#include <algorithm>

#include "weft/ops/matmul/cuda/held_rows.cuh"

namespace weft::cuda {

inline bool held_aligned(const View& v) { return aligned16(data<char>(v)) && v.strides[0] % 8 == 0; }

// The left operand (x, delta, w, h, eps) from an op's arguments.
template <class Args>
HeldInput held_input(const Args& a) {
  for (const View* view : {&a.x, &a.delta, static_cast<const View*>(&a.h)})
    if (*view && !held_aligned(*view))
      fail(ErrorCode::unsupported, a.kOp, "needs rows of x, delta and h aligned to 16 bytes on this device, got strides ", view->strides);
  return {.x = data<__nv_bfloat16>(a.x),
          .delta = data<__nv_bfloat16>(a.delta),
          .w = data<char>(a.w),
          .h = data<__nv_bfloat16>(a.h),
          .x_row = a.x.strides[0],
          .delta_row = a.delta ? a.delta.strides[0] : 0,
          .h_row = a.h ? a.h.strides[0] : 0,
          .M = int(a.x.shape[0]),
          .K = int(a.x.shape[1]),
          .eps = a.eps,
          .wide = a.w.dtype == DType::f32,
          .ahead = true};
}
inline void check_weight_rows(const char* op, std::initializer_list<const View*> weights) {
  for (const View* w : weights)
    if (!held_aligned(*w))
      fail(ErrorCode::unsupported, op, "needs rows of weights aligned to 16 bytes on this device, got strides ", w->strides);
}

// The shared memory of a block. Few tiles: one block per tile, two blocks on a multiprocessor, so that the next kernel can prefetch its
// first weights beside them. Many tiles: one or two blocks on a multiprocessor, with the same bytes in flight. Long rows of x leave fewer
// stages.
inline HeldMemory held_memory(const HeldInput& in, int tiles, int all, int64_t room) {
  HeldMemory memory{in.M, in.K, tiles <= 2 * all ? 1 : tiles <= 4 * all ? 2 : kHeldPairs, 0, in.w != nullptr};
  const int wanted = memory.pairs > 1 ? 3 : tiles <= all ? 8 : 6;
  const auto fit = [&] { return int((room - memory.bytes()) / (memory.pairs * HeldMemory::kStage)); };
  while (memory.pairs > 1 && fit() < 2) memory.pairs /= 2;
  memory.stages = std::min({wanted, fit(), HeldMemory::kMostStages});
  return memory;
}
inline bool held_fits(Stream& stream, const HeldInput& in) { return held_memory(in, 1, 1, shared_memory(stream)).stages >= 2; }

template <class Tiles>
void launch_held(Stream& stream, const char* op, const HeldInput& in, const Tiles& tiles) {
  const int count = tiles.count(), all = multiprocessors(stream);
  const HeldMemory memory = held_memory(in, count, all, shared_memory(stream));
  if (memory.stages < 2)  // a warp waits for the next stage before it releases its current one
    fail(ErrorCode::unsupported, op, in.M, " rows of ", in.K, " elements leave no room for weights in the ", shared_memory(stream),
         " bytes of shared memory that a block of this GPU has");
  const int blocks = std::min((count + memory.pairs - 1) / memory.pairs, memory.pairs == kHeldPairs ? all : 2 * all);
  launch_overlapping(stream, op, dim3(unsigned(blocks)), kHeldThreads, size_t(memory.bytes()), multiply_held<Tiles>,
                     HeldParams<Tiles>{in, memory, tiles});
}

}  // namespace weft::cuda
