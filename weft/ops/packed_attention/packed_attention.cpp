#include "weft/ops/packed_attention/packed_attention.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/tensor/node.h"

namespace weft {
namespace {

// The three parts of a packed view, which share its memory; V is View or MutView.
template <class V>
struct Parts {
  V q, k, v;
};
template <class V>
Parts<V> parts(const char* op, const V& packed, int64_t Hkv) {
  check(packed && packed.rank() == 4, op, "qkv must be [batch, time, heads, head_dim], got shape ", packed.shape);
  const int64_t heads = packed.shape[2], H = heads - 2 * Hkv;
  check(Hkv >= 1 && H >= 1 && H % Hkv == 0, op, "kv_heads is ", Hkv, " of ", heads,
        " heads; expected H + 2 kv_heads of them with H a multiple of kv_heads");
  return {part(packed, 2, 0, H), part(packed, 2, H, H + Hkv), part(packed, 2, H + Hkv, heads)};
}

template <class Args, class Packed>
Args with_options(const Packed& packed, Args args) {
  args.scale = packed.scale, args.documents = packed.documents, args.window = packed.window, args.soft_cap = packed.soft_cap;
  return args;
}

CausalAttentionArgs unpacked(const PackedAttentionArgs& a) {
  const auto [q, k, v] = parts(a.kOp, a.qkv, a.kv_heads);
  return with_options(a, CausalAttentionArgs{.q = q, .k = k, .v = v, .o = a.o, .lse = a.lse, .scale = 0});
}

CausalAttentionBackwardArgs unpacked(const PackedAttentionBackwardArgs& a) {
  const auto [q, k, v] = parts(a.kOp, a.qkv, a.kv_heads);
  check(a.dqkv && a.dqkv.shape == a.qkv.shape, a.kOp, "dqkv has shape ", a.dqkv.shape, ", qkv ", a.qkv.shape);
  const auto [dq, dk, dv] = parts(a.kOp, a.dqkv, a.kv_heads);
  CausalAttentionBackwardArgs args{
      .dout = a.dout, .q = q, .k = k, .v = v, .o = a.o, .lse = a.lse, .dq = dq, .dk = dk, .dv = dv, .scale = 0};
  return with_options(a, args);
}

}  // namespace

void packed_attention(Stream& stream, const PackedAttentionArgs& args) { causal_attention(stream, unpacked(args)); }
void packed_attention_backward(Stream& stream, const PackedAttentionBackwardArgs& args) {
  causal_attention_backward(stream, unpacked(args));
}

Cost cost(const PackedAttentionArgs& args) { return cost(unpacked(args)); }
Cost cost(const PackedAttentionBackwardArgs& args) { return cost(unpacked(args)); }

Tensor packed_attention(const Tensor& qkv, int64_t kv_heads, float scale) {
  return packed_attention(qkv, kv_heads, AttentionOptions{.scale = scale});
}

Tensor packed_attention(const Tensor& qkv, int64_t kv_heads, const AttentionOptions& options) {
  constexpr const char* kOp = PackedAttentionArgs::kOp;
  check(qkv.defined(), kOp, "qkv is missing (an undefined tensor)");
  Device& device = qkv.device();
  const Shape s = parts(kOp, qkv.view(), kv_heads).q.shape;
  const float scale = options.scale != 0 ? options.scale : 1 / std::sqrt(float(std::max<int64_t>(1, s[3])));
  Tensor o = Tensor::empty(device, s, qkv.dtype());
  const Tensor lse = Tensor::empty(device, {s[0], s[2], s[1]});
  packed_attention(device.stream(), {.qkv = qkv.view(),
                                     .o = o.mut_view(),
                                     .lse = lse.mut_view(),
                                     .kv_heads = kv_heads,
                                     .scale = scale,
                                     .documents = options.documents.view(),
                                     .window = options.window,
                                     .soft_cap = options.soft_cap});
  const auto rule = [qkv = Kept(qkv), o = Kept(o), documents = Kept(options.documents), lse, kv_heads, scale, window = options.window,
                     soft_cap = options.soft_cap](const Upstream& up) {
    const Tensor dout = contiguous(up.grads[0].detach()), dqkv = Tensor::empty(qkv.device(), qkv.shape(), qkv.dtype());
    packed_attention_backward(qkv.device().stream(), {.dout = dout.view(),
                                                      .qkv = qkv.view(),
                                                      .o = o.view(),
                                                      .lse = lse.view(),
                                                      .dqkv = dqkv.mut_view(),
                                                      .kv_heads = kv_heads,
                                                      .scale = scale,
                                                      .documents = documents.view(),
                                                      .window = window,
                                                      .soft_cap = soft_cap});
    return std::vector<Tensor>{dqkv};
  };
  record(kOp, {&qkv}, {&o}, rule);
  return o;
}

}  // namespace weft
