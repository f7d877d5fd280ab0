// The head of a language model and its loss in one op:
//
//   loss = cross_entropy(x W^T, targets) = sum over rows whose target t is not pad_id of (lse - logit_t) / count
//
//   dlogits = (softmax - onehot) / count     dx = dlogits W     dW = dlogits^T x   (f32)
//
// With a soft cap the logits are cap tanh(x W^T / cap), and dlogits is multiplied by 1 - (logits / cap)^2.
//
// Rows are processed in chunks, so that never more than a chunk of the logits exists (DeviceTraits::temporary_elements), and the
// gradients are computed on the way, while a chunk's logits are there. Logits are f32; dlogits has x's dtype. Each chunk is a
// matmul, a cross_entropy and, for the gradients, two matmuls. dW adds the chunks in order: on a device whose matmul adds in
// order (DeviceTraits::matmul_in_order) its bits do not depend on the chunks.
#pragma once

#include "weft/ops/contract.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct LinearCrossEntropyArgs {
  static constexpr const char* kOp = "linear_cross_entropy";
  View x;                             // [rows, C], f32 or bf16, unit stride over C
  View weight;                        // [V, C], x's dtype; or int8, with scales (weft/ops/matmul)
  View targets;                       // [rows], i32 or u32, contiguous
  View count;                         // one f32: what the sum of the losses is divided by
  MutView loss;                       // one f32
  MutView losses = {}, digests = {};  // [rows], f32 and u32: those of cross_entropy; absent: not wanted
  MutView dx;                         // as x; absent: not wanted
  // f32, [V, C] or more rows, of which those from V on become 0; absent: not wanted. Padded to a multiple of
  // DeviceTraits::matmul_multiple rows it is computed at full speed.
  MutView dweight;
  int64_t pad_id = -1;     // -1: no target is padding
  int64_t chunk_rows = 0;  // rows per chunk; 0: linear_cross_entropy_chunk
  float soft_cap = 0;      // 0: none
  View scales = {};        // of an int8 weight; then without dx and dweight
};

// A checked launch into memory the caller owns.
void linear_cross_entropy(Stream& stream, const LinearCrossEntropyArgs& args);
Cost cost(const LinearCrossEntropyArgs& args);

// The loss, a device scalar. Where there is a pad_id and no count, the targets are counted on the host, which waits for the device.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets, const CrossEntropyOptions& options = {},
                            float soft_cap = 0, const Tensor& scales = {});

// Rows per chunk for a vocabulary of V: as few chunks as the device's temporaries allow, of equal length but for rounding it up to whole
// tiles where the device's matmul prefers multiples.
int64_t linear_cross_entropy_chunk(const Device& device, int64_t rows, int64_t V);

}  // namespace weft
