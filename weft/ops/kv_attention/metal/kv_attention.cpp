#include <algorithm>

#include "weft/ops/causal_attention/forward_pass.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/ops/kv_attention/params.h"
#include "weft/tile/metal/head_views.h"
#include "weft/tile/metal/launch.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/kv_attention/metal/kv_attention.metal";

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// One query per sequence. Enough splits to fill a large GPU at batch 1, of at least 64 keys where the cache is full; by
// shapes alone.
void decode(Stream& stream, const KvAttentionArgs& a) {
  constexpr int64_t kWanted = 1024, kMostSplits = 256;  // simdgroups in all; as join_splits has room for
  const int64_t B = a.q.shape[0], H = a.q.shape[2], D = a.q.shape[3], capacity = a.k_cache.shape[1], Hkv = a.k_cache.shape[2];
  const int64_t parts = ceil_div(H / Hkv, 8), most = std::clamp<int64_t>(capacity / 64, 1, kMostSplits);
  const int64_t splits = std::clamp<int64_t>(kWanted / (B * Hkv * parts), 1, most), simdgroups = D <= 128 ? 2 : 1;
  const DecodeParams p{head_strides(a.q),       head_strides(a.k_cache),
                       head_strides(a.v_cache), head_strides(a.o),
                       int32_t(capacity),       int32_t(H),
                       int32_t(H / Hkv),        int32_t(D),
                       int32_t(splits),         a.scale};
  const std::vector<Constant> constants = {constant(0, int32_t(ceil_div(D, 8))),
                                           constant(1, heads_in_fours(a.q) && heads_in_fours(a.k_cache) && heads_in_fours(a.v_cache))};
  const std::shared_ptr<Buffer> partial = scratch(stream, B * H * splits * D * int64_t(sizeof(float))),
                                statistics = scratch(stream, B * H * splits * 2 * int64_t(sizeof(float)));
  launch(stream, {a.kOp, kFile, join("attend_split", dtype_suffix(a.q.dtype), head_dim_suffix(D)), constants},
         {.groups = {ceil_div(splits, simdgroups), Hkv * parts, B}, .threads = int(32 * simdgroups)},
         {in(a.q), in(a.k_cache), in(a.v_cache), in(a.start), out(*partial), out(*statistics), params(p), fault(stream)});
  launch(stream, {a.kOp, kFile, join("join_splits", dtype_suffix(a.q.dtype)), constants}, {.groups = {H, B, 1}, .threads = 256},
         {in(*partial), in(*statistics), in(a.start), out(a.o), params(p)});
}

}  // namespace

void kv_attention(Stream& stream, const KvAttentionArgs& a) {
  if (a.q.numel() == 0) return;
  constexpr int64_t kMost = int64_t(1) << 30;
  check(a.q.shape[0] < kMost && a.q.shape[2] < kMost && a.k_cache.shape[1] < kMost, a.kOp, "shape ", a.k_cache.shape,
        " is more than this device takes in one launch");
  if (a.q.shape[1] == 1) return decode(stream, a);
  attention_forward(stream,
                    {.op = a.kOp, .q = a.q, .k = a.k_cache, .v = a.v_cache, .start = a.start, .o = a.o, .lse = {}, .scale = a.scale});
}

}  // namespace weft::metal
