#include "weft/backends/metal/metal_device.h"

namespace weft::metal {

#define WEFT_DECLARE_KERNEL(kernel, Args) void kernel(Stream& stream, const Args& args);
WEFT_KERNELS(WEFT_DECLARE_KERNEL)
#undef WEFT_DECLARE_KERNEL

const Kernels& kernels() {
  static constexpr Kernels kTable = {
      .elementwise = elementwise,
      .copy = copy,
      .fill = fill,
      .matmul = matmul,
      .softmax = softmax,
      .softmax_backward = softmax_backward,
      .rms_norm = rms_norm,
      .rms_norm_backward = rms_norm_backward,
      .layer_norm = layer_norm,
      .layer_norm_backward = layer_norm_backward,
      .rope = rope,
      .embedding = embedding,
      .embedding_backward = embedding_backward,
      .reduce = reduce,
      .reduce_backward = reduce_backward,
      .causal_attention = causal_attention,
      .causal_attention_backward = causal_attention_backward,
      .kv_attention = kv_attention,
      .kv_append = kv_append,
      .transpose_2d = transpose_2d,
      .cross_entropy = cross_entropy,
      .adamw = adamw,
      .gradient_norm = gradient_norm,
      .uniform = uniform,
      .advance_state = advance_state,
      .dropout = dropout,
  };
  return kTable;
}

}  // namespace weft::metal
