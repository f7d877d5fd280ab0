// [B, T, H, D] views as parameters of the attention kernels.
#pragma once

#include "weft/tensor/view.h"
#include "weft/tile/metal/heads.h"

namespace weft::metal {

inline HeadStrides head_strides(const View& v) { return {v.strides[0], v.strides[1], v.strides[2]}; }

// All zero if there is no page table.
inline PageSizes page_sizes(const View& cache, const View& pages) {
  if (!pages) return {};
  return {int32_t(cache.shape[0]), int32_t(cache.shape[1]), int32_t(pages.shape[1]), 0};
}

// Whether every head's row starts at a multiple of four elements.
inline bool heads_in_fours(const View& v) {
  return (v.buffer->offset() + v.offset) % (4 * size_of(v.dtype)) == 0 && v.strides[0] % 4 == 0 && v.strides[1] % 4 == 0 &&
         v.strides[2] % 4 == 0;
}

// The padded head dim that a kernel was instantiated for, as it ends the kernel's name.
inline const char* head_dim_suffix(int64_t D) { return D <= 64 ? "_64" : D <= 128 ? "_128" : "_256"; }
inline const char* dtype_suffix(DType dtype) { return dtype == DType::f32 ? "_f32" : "_bf16"; }

}  // namespace weft::metal
