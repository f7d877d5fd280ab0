#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/rms_norm/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/ops/row_norm/cpu.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

void rms_norm(Stream& stream, const RmsNormArgs& args) { norm_rows</*kCentred=*/false>(stream, row_norm_args(args)); }
void rms_norm_backward(Stream& stream, const RmsNormBackwardArgs& args) {
  norm_rows_backward</*kCentred=*/false>(stream, row_norm_args(args));
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(rms_norm, RmsNormArgs)
WEFT_CPU_KERNEL(rms_norm_backward, RmsNormBackwardArgs)
#endif
