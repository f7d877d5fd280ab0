#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/tile/cpu/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/ops/layer_norm/cpu.cpp"
#include <hwy/foreach_target.h>

#include "weft/ops/row_norm/cpu.h"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

void layer_norm(Stream& stream, const LayerNormArgs& args) { norm_rows</*kCentred=*/true>(stream, args); }
void layer_norm_backward(Stream& stream, const LayerNormBackwardArgs& args) { norm_rows_backward</*kCentred=*/true>(stream, args); }

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
WEFT_CPU_KERNEL(layer_norm, LayerNormArgs)
WEFT_CPU_KERNEL(layer_norm_backward, LayerNormBackwardArgs)
#endif
