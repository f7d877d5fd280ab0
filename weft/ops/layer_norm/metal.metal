#include "weft/ops/row_norm/metal.metal.h"

WEFT_ROW_NORM("_f32", float, float, /*kCentred=*/true)
WEFT_ROW_NORM("_bf16", bfloat, bfloat, /*kCentred=*/true)
WEFT_ROW_NORM("_bf16_f32", bfloat, float, /*kCentred=*/true)
