#include "weft/backends/counting/table.h"

#include <optional>

#include "weft/backends/counting/counting_device.h"
#include "weft/backends/cpu/cpu_device.h"
#include "weft/base/parallel.h"
#include "weft/ops/adamw/adamw.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/copy/copy.h"
#include "weft/ops/cross_entropy/cross_entropy.h"
#include "weft/ops/dropout/dropout.h"
#include "weft/ops/elementwise/elementwise.h"
#include "weft/ops/embedding/embedding.h"
#include "weft/ops/fill/fill.h"
#include "weft/ops/gradient_norm/gradient_norm.h"
#include "weft/ops/kv_append/kv_append.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/ops/reduce/reduce.h"
#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/ops/rope/rope.h"
#include "weft/ops/softmax/softmax.h"
#include "weft/ops/transpose_2d/transpose_2d.h"
#include "weft/ops/uniform/uniform.h"

namespace weft::counting {
namespace {

Cost cost_of(const AdvanceStateArgs& args) { return {2 * bytes_of(args.state), 0}; }
template <class Args>
Cost cost_of(const Args& args) {
  return cost(args);
}

// Ids are really copied: kernels read them before their tasks.
template <class Args>
bool computed(const Args&) {
  return false;
}
bool computed(const CopyArgs& args) { return is_id(args.from.dtype) && is_id(args.to.dtype); }

// Adds the cost, and runs what the CPU kernel does around its tasks.
#define WEFT_COUNT(kernel, Args)                           \
  void kernel(Stream& stream, const Args& args) {          \
    counts(stream.device()).add(Args::kOp, cost_of(args)); \
    std::optional<TasksLeftOut> left_out;                  \
    if (!computed(args)) left_out.emplace();               \
    cpu::kernels().kernel(stream, args);                   \
  }
WEFT_KERNELS(WEFT_COUNT)
#undef WEFT_COUNT

}  // namespace

const Kernels& kernels() {
#define WEFT_ENTRY(kernel, Args) .kernel = counting::kernel,
  static const Kernels kTable = {WEFT_KERNELS(WEFT_ENTRY)};
#undef WEFT_ENTRY
  return kTable;
}

}  // namespace weft::counting
