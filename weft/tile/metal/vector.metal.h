// Consecutive elements in registers, as they are in memory: sixteen bytes at a time where alignment allows. Values are f32;
// a bf16 is rounded to nearest even when it is set.
#pragma once

#include <metal_stdlib>

#include "weft/tile/metal/scalar.metal.h"

namespace weft {

// Elements of T in a sixteen-byte access.
template <class T>
constexpr int per_vector() {
  return 16 / int(sizeof(T));
}

// Element i of a 32-bit word.
template <class T>
struct InWord;
template <>
struct InWord<float> {
  static float get(uint word, int) { return as_type<float>(word); }
  static uint with(uint, int, float x) { return as_type<uint>(x); }
};
template <>
struct InWord<bfloat> {
  static float get(uint word, int i) { return as_type<float>(i ? word & 0xffff0000u : word << 16); }
  static uint with(uint word, int i, float x) {
    const uint bits = as_type<ushort>(from_float<bfloat>(x));
    return i ? (word & 0xffffu) | bits << 16 : (word & 0xffff0000u) | bits;
  }
};

template <class T, int N>
struct Chunk {
  uint word[N * int(sizeof(T)) / 4];

  float operator[](int i) const { return InWord<T>::get(word[i * int(sizeof(T)) / 4], i % (4 / int(sizeof(T)))); }
  void set(int i, float x) {
    const int w = i * int(sizeof(T)) / 4;
    word[w] = InWord<T>::with(word[w], i % (4 / int(sizeof(T))), x);
  }
};

template <class T, int N>
inline Chunk<T, N> chunk_of(float x) {
  Chunk<T, N> chunk = {};
#pragma unroll
  for (int i = 0; i < N; ++i) chunk.set(i, x);
  return chunk;
}

// All N elements; `from` must be aligned to 16 bytes.
template <class T, int N>
inline Chunk<T, N> load_whole(device const T* from) {
  static_assert(N * sizeof(T) % 16 == 0, "whole vectors");
  Chunk<T, N> chunk;
#pragma unroll
  for (int v = 0; v < N * int(sizeof(T)) / 16; ++v) {
    const uint4 bits = reinterpret_cast<device const uint4*>(from)[v];
#pragma unroll
    for (int i = 0; i < 4; ++i) chunk.word[4 * v + i] = bits[i];
  }
  return chunk;
}
// Or half a vector, as four bf16 of what came as four f32 are.
template <class T, int N>
inline void store_whole(Chunk<T, N> chunk, device T* to) {
  static_assert(N * sizeof(T) % 16 == 0 || N * sizeof(T) == 8, "whole vectors, or half of one");
#pragma unroll
  for (int v = 0; v < N * int(sizeof(T)) / 16; ++v)
    reinterpret_cast<device uint4*>(to)[v] = uint4(chunk.word[4 * v], chunk.word[4 * v + 1], chunk.word[4 * v + 2], chunk.word[4 * v + 3]);
  if (N * sizeof(T) == 8) *reinterpret_cast<device uint2*>(to) = uint2(chunk.word[0], chunk.word[1]);
}

// The first `count` elements (none when it is below 1), the others 0. By vectors where all are there and aligned, else one by one.
template <class T, int N>
inline Chunk<T, N> load_chunk(device const T* from, int count, bool aligned) {
  if (aligned && count >= N) return load_whole<T, N>(from);
  Chunk<T, N> chunk = {};
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) chunk.set(i, to_float(from[i]));
  return chunk;
}
template <class T, int N>
inline void store_chunk(Chunk<T, N> chunk, device T* to, int count, bool aligned) {
  if (aligned && count >= N) return store_whole<T, N>(chunk, to);
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) to[i] = from_float<T>(chunk[i]);
}

}  // namespace weft
