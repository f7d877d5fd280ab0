#include "weft/ops/kv_append/kv_append.h"
#include "weft/ops/kv_append/params.h"
#include "weft/tile/metal/head_views.h"
#include "weft/tile/metal/launch.h"

namespace weft::metal {

void kv_append(Stream& stream, const KvAppendArgs& a) {
  if (a.k.numel() == 0) return;
  const int64_t B = a.k.shape[0], T = a.k.shape[1], H = a.k.shape[2], D = a.k.shape[3], most = a.k_cache.shape[1] - T;
  check(a.k_cache.shape[1] <= INT32_MAX, a.kOp, "a cache of shape ", a.k_cache.shape, " is longer than this device takes");
  const KvAppendParams p{head_strides(a.k), head_strides(a.v), head_strides(a.k_cache), head_strides(a.v_cache), T * H * D, int32_t(most), int32_t(H), int32_t(D), 0};
  launch(stream, {a.kOp, "weft/ops/kv_append/metal.metal", join("append_", size_of(a.k.dtype)), {}}, {.groups = {(p.count + 255) / 256, B, 1}, .threads = 256},
         {in(a.k), in(a.v), in(a.start), out(a.k_cache), out(a.v_cache), params(p), fault(stream)});
}

}  // namespace weft::metal
