#include "weft/backends/counting/table.h"

#include <optional>

#include "weft/backends/counting/counting_device.h"
#include "weft/backends/cpu/cpu_device.h"
#include "weft/base/parallel.h"
#include "weft/ops/ops.h"

namespace weft::counting {
namespace {

// Ids are really copied: kernels read them before their tasks.
template <class Args>
bool computed(const Args&) {
  return false;
}
bool computed(const CopyArgs& args) { return is_id(args.from.dtype) && is_id(args.to.dtype); }

// Adds the cost, and runs what the CPU kernel does around its tasks.
#define WEFT_COUNT(kernel, Args)                        \
  void kernel(Stream& stream, const Args& args) {       \
    counts(stream.device()).add(Args::kOp, cost(args)); \
    std::optional<TasksLeftOut> left_out;               \
    if (!computed(args)) left_out.emplace();            \
    cpu::kernels().kernel(stream, args);                \
  }
WEFT_KERNELS(WEFT_COUNT)
#undef WEFT_COUNT

// An op that the CPU does not support is not supported here either.
template <class Args>
Slot<Args> counted(void (*launch)(Stream&, const Args&), const Slot<Args>& slot) {
  return slot.supported() ? Slot<Args>(launch) : Slot<Args>(unsupported(slot.reason()));
}

}  // namespace

const Kernels& kernels() {
#define WEFT_ENTRY(kernel, Args) .kernel = counted<Args>(counting::kernel, cpu::kernels().kernel),
  static const Kernels kTable = {WEFT_KERNELS(WEFT_ENTRY)};
#undef WEFT_ENTRY
  return kTable;
}

}  // namespace weft::counting
