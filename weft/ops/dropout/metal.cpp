#include "weft/ops/dropout/dropout.h"
#include "weft/ops/dropout/params.h"
#include "weft/tile/metal/rows.h"

namespace weft::metal {

void dropout(Stream& stream, const DropoutArgs& a) {
  const int64_t count = a.x.numel();
  const auto threshold = uint32_t(double(a.p) * 0x1p32 + 0.5);  // a float below 1 is at most 1 - 2^-24: this fits
  const DropoutParams p{count, a.site, threshold, 1.0f / (1.0f - a.p), aligned16(a.x) && aligned16(a.y)};
  launch(stream, {a.kOp, "weft/ops/dropout/metal.metal", join("drop", suffix_of(a.x.dtype)), {}},
         {.groups = {(count + 2047) / 2048, 1, 1}, .threads = 256}, bind(a, {params(p)}));
}

}  // namespace weft::metal
