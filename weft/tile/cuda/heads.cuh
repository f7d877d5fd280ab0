// [B, T, H, D] operands of rope and the attentions: any strides over B, T and H, unit stride over D.
#pragma once

#include "weft/tile/cuda/launch.h"

namespace weft::cuda {

template <class T>
struct Heads {
  T* at;
  int64_t batch, time, head;  // strides in elements

  __host__ __device__ T* row(int64_t b, int64_t t, int64_t h) const { return at + b * batch + t * time + h * head; }
};

template <class T>
Heads<const T> heads(const View& v) {
  return {data<T>(v), v.strides[0], v.strides[1], v.strides[2]};
}
template <class T>
Heads<T> heads(const MutView& v) {
  return {data<T>(v), v.strides[0], v.strides[1], v.strides[2]};
}

// Whether every head's row starts at 16 bytes and is whole vectors long.
template <class T>
bool heads_aligned(const View& v) {
  constexpr int64_t kPer = 16 / int64_t(sizeof(T));
  return aligned16(data<T>(v)) && v.strides[0] % kPer == 0 && v.strides[1] % kPer == 0 && v.strides[2] % kPer == 0 &&
         v.shape[3] % kPer == 0;
}

}  // namespace weft::cuda
