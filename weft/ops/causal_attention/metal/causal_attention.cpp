#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/ops/causal_attention/forward_pass.h"
#include "weft/ops/causal_attention/params.h"
#include "weft/ops/kv_pages.h"
#include "weft/tile/metal/head_views.h"
#include "weft/tile/metal/key_segments.h"
#include "weft/tile/metal/launch.h"

namespace weft::metal {
namespace {

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

void check_extents(const char* op, const View& q, const View& k, const View& documents) {
  constexpr int64_t kMost = int64_t(1) << 30;
  check(q.shape[0] < kMost && k.shape[1] < kMost && q.shape[2] < kMost, op, "shapes ", q.shape, " and ", k.shape,
        " are more than this device takes in one launch");
  check(!documents || documents.numel() < kMost, op, "documents of shape ", documents.shape,
        " are more than this device takes in one launch");
}

int32_t matrices(int64_t D) { return int32_t(ceil_div(D, 8)); }

// Cumulative lengths that a kernel may rely on, or none (then a sequence is one document).
struct Documents {
  std::shared_ptr<Buffer> checked;
  int64_t count = 0;

  Argument argument() const { return checked ? in(*checked) : nothing(); }
  // Threadgroups for tiles of `rows` tokens (documents.metal.h). No document has no tiles: its array ends with 0, which is reported.
  int64_t groups(int64_t T, int64_t rows) const {
    if (!checked) return ceil_div(T, rows);
    return count > 0 ? T / rows + count : 0;
  }
};

// Wrong lengths are reported; the kernels then see documents without tokens.
Documents check_documents(Stream& stream, const char* op, const View& documents, int64_t T) {
  if (!documents) return {};
  const Documents checked{scratch(stream, documents.numel() * int64_t(sizeof(int32_t))), documents.numel() - 1};
  const DocumentsParams p{int32_t(checked.count), int32_t(T)};
  launch(stream, {op, "weft/ops/causal_attention/metal/documents.metal", "check_documents", {}}, {.threads = 256},
         {in(documents), out(*checked.checked), params(p), fault(stream)});
  return checked;
}

// A window of all keys is none.
int32_t window_of(int64_t window, int64_t keys) { return window < keys ? int32_t(window) : 0; }

}  // namespace

void attention_forward(Stream& stream, const AttentionForward& a) {
  check_extents(a.op, a.q, a.k, a.documents);
  if (a.q.numel() == 0) return;
  const int64_t B = a.q.shape[0], T = a.q.shape[1], H = a.q.shape[2], D = a.q.shape[3], queries = D <= 128 ? 64 : 32,
                keys = kv_capacity(a.k, a.pages);
  const Documents documents = check_documents(stream, a.op, a.documents, T);
  const AttentionParams p{head_strides(a.q),
                          head_strides(a.k),
                          head_strides(a.v),
                          head_strides(a.o),
                          int32_t(T),
                          int32_t(H),
                          int32_t(H / a.k.shape[2]),
                          int32_t(D),
                          int32_t(keys),
                          a.scale,
                          int32_t(documents.count),
                          window_of(a.window, keys),
                          a.soft_cap,
                          0,
                          page_sizes(a.k, a.pages)};
  const bool aligned = heads_in_fours(a.q) && heads_in_fours(a.k) && heads_in_fours(a.v);
  const Kernel kernel{a.op,
                      "weft/ops/causal_attention/metal/forward.metal",
                      join("attend", dtype_suffix(a.q.dtype), head_dim_suffix(D)),
                      {constant(0, matrices(D)), constant(1, aligned), constant(2, bool(a.start)), constant(3, bool(a.lse)),
                       constant(4, keys > kKeySegment), constant(5, bool(a.documents)), constant(6, p.window > 0),
                       constant(7, p.soft_cap > 0), constant(8, bool(a.pages))}};
  launch(stream, kernel, {.groups = {documents.groups(T, queries), H, B}, .threads = 256},
         {in(a.q), in(a.k), in(a.v), out(a.o), out(a.lse), in(a.start), params(p), fault(stream), documents.argument(), in(a.pages)});
}

void causal_attention(Stream& stream, const CausalAttentionArgs& a) {
  attention_forward(stream, {.op = a.kOp,
                             .q = a.q,
                             .k = a.k,
                             .v = a.v,
                             .start = {},
                             .o = a.o,
                             .lse = a.lse,
                             .scale = a.scale,
                             .documents = a.documents,
                             .window = a.window,
                             .soft_cap = a.soft_cap});
}

void causal_attention_backward(Stream& stream, const CausalAttentionBackwardArgs& a) {
  check_extents(a.kOp, a.q, a.k, a.documents);
  if (a.q.numel() == 0) return;
  const int64_t B = a.q.shape[0], T = a.q.shape[1], H = a.q.shape[2], D = a.q.shape[3], Hkv = a.k.shape[2];
  const Documents documents = check_documents(stream, a.kOp, a.documents, T);
  const AttentionBackwardParams p{head_strides(a.q),
                                  head_strides(a.k),
                                  head_strides(a.v),
                                  head_strides(a.o),
                                  head_strides(a.dout),
                                  head_strides(a.dq),
                                  head_strides(a.dk),
                                  head_strides(a.dv),
                                  int32_t(T),
                                  int32_t(H),
                                  int32_t(H / Hkv),
                                  int32_t(D),
                                  int32_t(B),
                                  a.scale,
                                  int32_t(documents.count),
                                  window_of(a.window, T),
                                  a.soft_cap,
                                  0};
  const bool aligned = heads_in_fours(a.q) && heads_in_fours(a.k) && heads_in_fours(a.v) && heads_in_fours(a.dout);
  const auto kernel = [&](const char* name, const char* head_dim) {
    return Kernel{a.kOp,
                  "weft/ops/causal_attention/metal/backward.metal",
                  join(name, dtype_suffix(a.q.dtype), head_dim),
                  {constant(0, matrices(D)), constant(1, aligned), constant(2, bool(a.documents)), constant(3, p.window > 0),
                   constant(4, p.soft_cap > 0)}};
  };
  const std::shared_ptr<Buffer> delta = scratch(stream, B * H * T * int64_t(sizeof(float)));
  launch(stream, kernel("row_products", ""), {.groups = {ceil_div(B * H * T, 8), 1, 1}, .threads = 256},
         {in(a.o), in(a.dout), out(*delta), params(p)});
  const int64_t rows = D <= 64 ? 64 : D <= 128 ? 32 : 16;  // that a threadgroup owns
  launch(stream, kernel("query_gradient", head_dim_suffix(D)), {.groups = {documents.groups(T, rows), H, B}, .threads = 256},
         {in(a.q), in(a.k), in(a.v), in(a.dout), in(a.lse), in(*delta), out(a.dq), params(p), documents.argument()});
  launch(stream, kernel("key_gradients", head_dim_suffix(D)), {.groups = {documents.groups(T, rows), Hkv, B}, .threads = 256},
         {in(a.q), in(a.k), in(a.v), in(a.dout), in(a.lse), in(*delta), out(a.dk), out(a.dv), params(p), documents.argument()});
}

}  // namespace weft::metal
