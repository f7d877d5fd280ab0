// Elements between memory and f32 registers: sixteen bytes at a time where alignment allows. bf16 and f16 round to
// nearest even.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace weft::cuda {

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __uint_as_float(uint32_t(__bfloat16_as_ushort(x)) << 16); }
__device__ __forceinline__ float to_float(__half x) { return __half2float(x); }

template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ __forceinline__ __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

// Elements of T in a 16-byte access.
template <class T>
inline constexpr int kPerVector = 16 / int(sizeof(T));

// kCount consecutive elements in registers, as they are in memory.
template <class T, int kCount>
struct alignas(16) Chunk {
  static_assert(kCount * sizeof(T) % 16 == 0);
  static constexpr int kVectors = kCount * int(sizeof(T)) / 16;
  T at[kCount];

  __device__ __forceinline__ float operator[](int i) const { return to_float(at[i]); }
  __device__ __forceinline__ void set(int i, float x) { at[i] = from_float<T>(x); }
};

// 16-byte accesses; the pointer must be so aligned.
template <class T, int kCount>
__device__ __forceinline__ Chunk<T, kCount> load_chunk(const T* from) {
  Chunk<T, kCount> chunk;
#pragma unroll
  for (int v = 0; v < Chunk<T, kCount>::kVectors; ++v) reinterpret_cast<uint4*>(chunk.at)[v] = reinterpret_cast<const uint4*>(from)[v];
  return chunk;
}
template <class T, int kCount>
__device__ __forceinline__ void store_chunk(const Chunk<T, kCount>& chunk, T* to) {
#pragma unroll
  for (int v = 0; v < Chunk<T, kCount>::kVectors; ++v) reinterpret_cast<uint4*>(to)[v] = reinterpret_cast<const uint4*>(chunk.at)[v];
}

// The same with streaming (evict-first) stores: on the H200 they raise a transpose from 3.1 to 4.0 TB/s.
template <class T, int kCount>
__device__ __forceinline__ void stream_chunk(const Chunk<T, kCount>& chunk, T* to) {
#pragma unroll
  for (int v = 0; v < Chunk<T, kCount>::kVectors; ++v)
    __stcs(reinterpret_cast<uint4*>(to) + v, reinterpret_cast<const uint4*>(chunk.at)[v]);
}

// The first `count` elements one by one; the others of a loaded chunk are `missing`.
template <class T, int kCount>
__device__ __forceinline__ Chunk<T, kCount> load_chunk(const T* from, int count, float missing) {
  Chunk<T, kCount> chunk;
#pragma unroll
  for (int i = 0; i < kCount; ++i) chunk.at[i] = i < count ? from[i] : from_float<T>(missing);
  return chunk;
}
template <class T, int kCount>
__device__ __forceinline__ void store_chunk(const Chunk<T, kCount>& chunk, T* to, int count) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    if (i < count) to[i] = chunk.at[i];
}

}  // namespace weft::cuda
