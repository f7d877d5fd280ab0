#include "weft/ops/kv_append/kv_append.h"
#include "weft/ops/kv_append/params.h"
#include "weft/tile/metal/head_views.h"
#include "weft/tile/metal/launch.h"

namespace weft::metal {
namespace {

// Whether every row of a head is whole pieces of sixteen bytes.
bool in_pieces(const View& v, int64_t elements) {
  return (v.buffer->offset() + v.offset) % 16 == 0 && v.strides[0] % elements == 0 && v.strides[1] % elements == 0 &&
         v.strides[2] % elements == 0 && v.shape[3] % elements == 0;
}

HeadStrides counted_in(const View& v, int64_t elements) {
  return {v.strides[0] / elements, v.strides[1] / elements, v.strides[2] / elements};
}

}  // namespace

void kv_append(Stream& stream, const KvAppendArgs& a) {
  if (a.k.numel() == 0) return;
  const int64_t B = a.k.shape[0], T = a.k.shape[1], H = a.k.shape[2], D = a.k.shape[3], most = kv_capacity(a.k_cache, a.pages) - T;
  check(most <= INT32_MAX && a.k_cache.shape[0] <= INT32_MAX, a.kOp, "a cache of shape ", a.k_cache.shape,
        " is longer than this device takes");
  const int64_t sixteen = 16 / size_of(a.k.dtype);
  const bool whole = in_pieces(a.k, sixteen) && in_pieces(a.v, sixteen) && in_pieces(a.k_cache, sixteen) && in_pieces(a.v_cache, sixteen);
  const int64_t N = whole ? sixteen : 1;
  const KvAppendParams p{counted_in(a.k, N),
                         counted_in(a.v, N),
                         counted_in(a.k_cache, N),
                         counted_in(a.v_cache, N),
                         T * H * D / N,
                         int32_t(most),
                         int32_t(H),
                         int32_t(D / N),
                         0,
                         page_sizes(a.k_cache, a.pages)};
  launch(stream, {a.kOp, "weft/ops/kv_append/metal.metal", join("append_", N * size_of(a.k.dtype)), {constant(0, bool(a.pages))}},
         {.groups = {(p.count + 255) / 256, B, 1}, .threads = 256}, bind(a, {params(p), fault(stream)}));
}

}  // namespace weft::metal
