#include "weft/ops/causal_attention/forward_pass.h"
#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/ops/kv_attention/params.h"
#include "weft/tile/metal/head_views.h"
#include "weft/tile/metal/key_segments.h"
#include "weft/tile/metal/launch.h"

namespace weft::metal {
namespace {

constexpr const char* kFile = "weft/ops/kv_attention/metal/kv_attention.metal";

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The window, or 0 (none) if it includes all keys.
int32_t window_of(const KvAttentionArgs& a, int64_t capacity) { return a.window < capacity ? int32_t(a.window) : 0; }

// One query per sequence. A threadgroup has one segment of the cache, and another kernel joins them; or all of them, where sequences and
// heads alone fill a GPU: 128 threadgroups have 1 MiB of keys and values in flight. The order, and so the bits, are the same.
void decode(Stream& stream, const KvAttentionArgs& a) {
  constexpr int64_t kEnough = 128;
  const int64_t B = a.q.shape[0], H = a.q.shape[2], D = a.q.shape[3], capacity = kv_capacity(a.k_cache, a.pages), Hkv = a.k_cache.shape[2];
  const int64_t rows = Hkv * ceil_div(H / Hkv, 8), segments = ceil_div(capacity, kKeySegment);
  const bool whole = segments == 1 || B * rows >= kEnough;
  const DecodeParams p{head_strides(a.q),
                       head_strides(a.k_cache),
                       head_strides(a.v_cache),
                       head_strides(a.o),
                       int32_t(capacity),
                       int32_t(H),
                       int32_t(H / Hkv),
                       int32_t(D),
                       int32_t(segments),
                       a.scale,
                       window_of(a, capacity),
                       a.soft_cap,
                       page_sizes(a.k_cache, a.pages)};
  const std::vector<Constant> constants = {constant(0, int32_t(ceil_div(D, 8))),
                                           constant(1, heads_in_fours(a.q) && heads_in_fours(a.k_cache) && heads_in_fours(a.v_cache)),
                                           constant(2, whole),
                                           constant(3, !whole),
                                           constant(4, p.window > 0),
                                           constant(5, bool(a.pages)),
                                           constant(6, bool(a.lse)),
                                           constant(7, bool(a.lse) && whole)};
  const int64_t results = whole ? 0 : B * H * segments;
  const std::shared_ptr<Buffer> partial = scratch(stream, results * D * int64_t(sizeof(float))),
                                statistics = scratch(stream, results * 2 * int64_t(sizeof(float)));
  launch(stream, {a.kOp, kFile, join("attend_cached", dtype_suffix(a.q.dtype), head_dim_suffix(D)), constants},
         {.groups = {whole ? 1 : segments, rows, B}, .threads = 128},
         {in(a.q), in(a.k_cache), in(a.v_cache), in(a.start), whole ? out(a.o) : nothing(), whole ? nothing() : out(*partial),
          whole ? nothing() : out(*statistics), params(p), fault(stream), in(a.pages), whole ? out(a.lse) : nothing()});
  if (whole) return;
  launch(stream, {a.kOp, kFile, join("join_segments", dtype_suffix(a.q.dtype)), constants}, {.groups = {H, B, 1}, .threads = 256},
         {in(*partial), in(*statistics), in(a.start), out(a.o), params(p), out(a.lse)});
}

}  // namespace

void kv_attention(Stream& stream, const KvAttentionArgs& a) {
  if (a.q.numel() == 0) return;
  constexpr int64_t kMost = int64_t(1) << 30;
  check(a.q.shape[0] < kMost && a.q.shape[2] < kMost && kv_capacity(a.k_cache, a.pages) < kMost && a.k_cache.shape[0] < kMost, a.kOp,
        "shape ", a.k_cache.shape, " is more than this device takes in one launch");
  if (a.q.shape[1] == 1) return decode(stream, a);
  attention_forward(stream, {.op = a.kOp,
                             .q = a.q,
                             .k = a.k_cache,
                             .v = a.v_cache,
                             .start = a.start,
                             .o = a.o,
                             .lse = a.lse,
                             .scale = a.scale,
                             .window = a.window,
                             .soft_cap = a.soft_cap,
                             .pages = a.pages});
}

}  // namespace weft::metal
