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
      .matmul = unsupported("not written for Metal yet"),
      .softmax = unsupported("not written for Metal yet"),
      .softmax_backward = unsupported("not written for Metal yet"),
      .rms_norm = unsupported("not written for Metal yet"),
      .rms_norm_backward = unsupported("not written for Metal yet"),
      .layer_norm = unsupported("not written for Metal yet"),
      .layer_norm_backward = unsupported("not written for Metal yet"),
      .rope = unsupported("not written for Metal yet"),
      .embedding = unsupported("not written for Metal yet"),
      .embedding_backward = unsupported("not written for Metal yet"),
      .reduce = unsupported("not written for Metal yet"),
      .reduce_backward = unsupported("not written for Metal yet"),
      .causal_attention = unsupported("not written for Metal yet"),
      .causal_attention_backward = unsupported("not written for Metal yet"),
      .kv_attention = unsupported("not written for Metal yet"),
      .transpose_2d = unsupported("not written for Metal yet"),
      .cross_entropy = unsupported("not written for Metal yet"),
      .adamw = unsupported("not written for Metal yet"),
      .gradient_norm = unsupported("not written for Metal yet"),
      .uniform = unsupported("not written for Metal yet"),
      .advance_state = unsupported("not written for Metal yet"),
      .dropout = unsupported("not written for Metal yet"),
  };
  return kTable;
}

}  // namespace weft::metal
