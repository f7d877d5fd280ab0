// Pointers out of views, for devices whose memory is addresses: the CPU's and CUDA's.
#pragma once

#include "weft/tensor/view.h"

namespace weft {

// The first element; null where the view is absent.
template <class T>
const T* data(const View& view) {
  if (!view.buffer) return nullptr;
  return reinterpret_cast<const T*>(static_cast<const char*>(view.buffer->handle()) + view.buffer->offset() + view.offset);
}
template <class T>
T* data(const MutView& view) {
  return const_cast<T*>(data<T>(static_cast<const View&>(view)));
}

}  // namespace weft
