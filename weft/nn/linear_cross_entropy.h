// The head of a language model and its loss in one:
//
//   loss = cross_entropy(x W^T, targets)
//
// over chunks of rows, so that never more than a chunk of the logits exists. Gradients are computed on the way:
//
//   dlogits = (softmax - onehot) / count     dx = dlogits W     dW = sum over chunks, in order, of dlogits^T x   (f32)
//
// dW is one chain of products over all rows in order (weft/ops/matmul): its bits do not depend on the chunks.
#pragma once

#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/tensor/tensor.h"

namespace weft {

// x [rows, C] and W [V, C], both f32 or both bf16; targets [rows]. A device scalar. Logits are f32. Where there is a
// pad_id and no count, the targets are counted on the host, which waits for the device.
Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& targets, const CrossEntropyOptions& options = {});

// Rows of a chunk for a vocabulary of V, in equal parts: at most 64 MiB of logits, or 512 MiB where small products leave most
// of the device idle (CUDA).
int64_t linear_cross_entropy_chunk(const Device& device, int64_t rows, int64_t V);

}  // namespace weft
