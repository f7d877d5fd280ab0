// The op table: one function pointer per kernel. Each backend's table.cpp fills it from WEFT_KERNELS (weft/backends/slots.h), so
// a kernel that a backend lacks fails to link, unless the op's Args say why it is missing:
//   static constexpr UnsupportedOn kUnsupportedOn{.cuda = "needs a table in constant memory"};
#pragma once

#include "weft/base/check.h"
#include "weft/device/stream.h"

// Every kernel of the contract and the struct of its arguments (defined in the op's header). One line per kernel.
#define WEFT_KERNELS(X)                                     \
  X(elementwise, ElementwiseArgs)                           \
  X(copy, CopyArgs)                                         \
  X(fill, FillArgs)                                         \
  X(matmul, MatmulArgs)                                     \
  X(matmul_group, MatmulGroupArgs)                          \
  X(softmax, SoftmaxArgs)                                   \
  X(softmax_backward, SoftmaxBackwardArgs)                  \
  X(rms_norm, RmsNormArgs)                                  \
  X(rms_norm_backward, RmsNormBackwardArgs)                 \
  X(layer_norm, LayerNormArgs)                              \
  X(layer_norm_backward, LayerNormBackwardArgs)             \
  X(rope, RopeArgs)                                         \
  X(embedding, EmbeddingArgs)                               \
  X(embedding_backward, EmbeddingBackwardArgs)              \
  X(reduce, ReduceArgs)                                     \
  X(reduce_backward, ReduceBackwardArgs)                    \
  X(causal_attention, CausalAttentionArgs)                  \
  X(causal_attention_backward, CausalAttentionBackwardArgs) \
  X(kv_attention, KvAttentionArgs)                          \
  X(kv_append, KvAppendArgs)                                \
  X(norm_heads, NormHeadsArgs)                              \
  X(norm_gated, NormGatedArgs)                              \
  X(sample, SampleArgs)                                     \
  X(document_positions, DocumentPositionsArgs)              \
  X(transpose_2d, Transpose2dArgs)                          \
  X(cross_entropy, CrossEntropyArgs)                        \
  X(adamw, AdamwArgs)                                       \
  X(gradient_squares, GradientSquaresArgs)                  \
  X(clip_of_squares, ClipOfSquaresArgs)                     \
  X(uniform, UniformArgs)                                   \
  X(advance_state, AdvanceStateArgs)                        \
  X(dropout, DropoutArgs)                                   \
  X(route, RouteArgs)                                       \
  X(route_backward, RouteBackwardArgs)                      \
  X(expert_order, ExpertOrderArgs)                          \
  X(expert_rows, ExpertRowsArgs)                            \
  X(expert_sum, ExpertSumArgs)                              \
  X(expert_dots, ExpertDotsArgs)                            \
  X(grouped_matmul, GroupedMatmulArgs)                      \
  X(grouped_matmul_weights, GroupedMatmulWeightsArgs)       \
  X(grouped_sums, GroupedSumsArgs)                          \
  /* a new kernel goes above this line */

namespace weft {

#define WEFT_DECLARE_ARGS(kernel, Args) struct Args;
WEFT_KERNELS(WEFT_DECLARE_ARGS)
#undef WEFT_DECLARE_ARGS

struct Unsupported {
  const char* reason;
};
constexpr Unsupported unsupported(const char* reason) { return {reason}; }

// The backends that have no kernel for an op, each with the reason that its error will give.
struct UnsupportedOn {
  const char* cpu = nullptr;
  const char* cuda = nullptr;
  const char* metal = nullptr;
};

template <class Args>
class Slot {
 public:
  using Launcher = void (*)(Stream&, const Args&);
  constexpr Slot(Launcher launch) : launch_(launch) {}
  constexpr Slot(Unsupported missing) : reason_(missing.reason) {}

  bool supported() const { return launch_ != nullptr; }
  const char* reason() const { return reason_; }

  // Args::kOp names the kernel in errors.
  void operator()(Stream& stream, const Args& args) const {
    if (!launch_) [[unlikely]]
      fail(ErrorCode::unsupported, Args::kOp, "this device has no such kernel: ", reason_);
    stream.launching(Args::kOp);
    launch_(stream, args);
    stream.launched();
  }

 private:
  Launcher launch_ = nullptr;
  const char* reason_ = "";
};

struct Kernels {
#define WEFT_DECLARE_SLOT(kernel, Args) Slot<Args> kernel;
  WEFT_KERNELS(WEFT_DECLARE_SLOT)
#undef WEFT_DECLARE_SLOT
};

}  // namespace weft
