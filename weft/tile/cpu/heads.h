// [B, T, H, D] operands of rope and the attentions: any strides over B, T and H, unit stride over D.
#pragma once

#include "weft/tile/cpu/kernel.h"

namespace weft::cpu {

template <class T>
struct Heads {
  T* at;
  int64_t batch, time, head;  // strides in elements

  T* row(int64_t b, int64_t t, int64_t h) const { return at + b * batch + t * time + h * head; }
};

template <class T>
Heads<const T> heads(const View& v) {
  return {data<T>(v), v.strides[0], v.strides[1], v.strides[2]};
}
template <class T>
Heads<T> heads(const MutView& v) {
  return {data<T>(v), v.strides[0], v.strides[1], v.strides[2]};
}

}  // namespace weft::cpu
