#include <cmath>

#include "weft/ops/causal_attention/attention_setup.h"
#include "weft/ops/packed_attention/packed_attention.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

using namespace attention;

constexpr const char* kOp = "packed_attention";

// q, k and v side by side in one tensor.
int64_t heads(const Size& n) { return n.H + 2 * n.Hkv; }
Shape packed(const Size& n) { return {n.B, n.T, heads(n), n.D}; }
Places places(const Size& n, const char* tensor) {
  const auto place = [&](int64_t first_head) { return Place{tensor, n.T, heads(n), n.D, first_head}; };
  return {place(0), place(n.H), place(n.H + n.Hkv)};
}

Problem forward(const Setup& s) {
  const Size n = s.size;
  Problem p;
  p.input("qkv", s.dtype, packed(n), s.fill, s.layout);
  p.output("o", s.dtype, s.out(), s.layout).output("lse", DType::f32, {n.B, n.H, n.T});
  declare_documents(p, s);
  const auto args = [=](const Bound& b) {
    return with_options(s, b,
                        PackedAttentionArgs{.qkv = b.view("qkv"), .o = b.mut("o"), .lse = b.mut("lse"), .kv_heads = n.Hkv, .scale = 0});
  };
  p.run = [=](Stream& stream, const Bound& b) { packed_attention(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { expect_attention(t, places(n, "qkv"), s.place("o"), n, s.rule()); };
  return p;
}

Problem backward(const Setup& s) {
  const Size n = s.size;
  Problem p;
  p.input("qkv", s.dtype, packed(n), s.fill, s.layout).input("dout", s.dtype, s.out(), normal(), s.layout);
  p.input("o", s.dtype, s.out(), constant(0), s.layout).input("lse", DType::f32, {n.B, n.H, n.T}, constant(0));
  p.output("dqkv", s.dtype, packed(n), s.layout);
  declare_documents(p, s);
  p.prepare = [=](Truth& t) { attend(t, places(n, "qkv"), s.place("o"), n, s.rule(), t["o"], &t["lse"]); };
  const auto args = [=](const Bound& b) {
    return with_options(s, b,
                        PackedAttentionBackwardArgs{.dout = b.view("dout"),
                                                    .qkv = b.view("qkv"),
                                                    .o = b.view("o"),
                                                    .lse = b.view("lse"),
                                                    .dqkv = b.mut("dqkv"),
                                                    .kv_heads = n.Hkv,
                                                    .scale = 0});
  };
  p.run = [=](Stream& stream, const Bound& b) { packed_attention_backward(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { differentiate(t, places(n, "qkv"), places(n, "dqkv"), s.place("o"), n, s.rule()); };
  if (!s.smooth) return p;
  p.loss = [=](const Truth& t) { return loss(t, places(n, "qkv"), s); };
  p.derivatives = {{"qkv", "dqkv"}};
  return p;
}

std::string name_of(const Size& n, const std::string& suffix = "") { return dims({n.B, n.T, n.H, n.Hkv, n.D}) + suffix; }

void add_cases(Registry& registry, DType dtype) {
  const auto both = [&](const Setup& s, const std::string& suffix = "") {
    registry.add({kOp, "forward", dtype, name_of(s.size, suffix), [=] { return forward(s); }});
    registry.add({kOp, "backward", dtype, name_of(s.size, suffix), [=] { return backward(s); }});
  };
  for (Size n : {Size{1, 1, 1, 1, 4}, Size{1, 17, 4, 2, 8}, Size{2, 65, 6, 2, 64}, Size{1, 33, 8, 1, 128}, Size{2, 31, 3, 3, 5},
                 Size{1, 130, 4, 4, 32}, Size{0, 4, 2, 1, 8}, Size{2, 0, 2, 1, 8}})
    both({.dtype = dtype, .size = n});
  both({.dtype = dtype, .size = {1, 70, 3, 1, 20}, .layout = Layout::padded_rows}, "/padded");
  both({.dtype = dtype, .size = {1, 80, 2, 1, 24}, .scale = 0.5f}, "/scale");
  // A NaN in the value of token 71: queries from there on see it, and gradients of keys up to there.
  const Size n{1, 90, 2, 1, 16};
  both({.dtype = dtype, .size = n, .fill = sprinkle(normal(), 90 * 4 * 16, 71 * 4 * 16 + 3 * 16 + 5, NAN), .smooth = false}, "/nan");
  both({.dtype = dtype, .size = {1, 130, 4, 2, 64}, .documents = {0, 1, 66, 66, 130}}, "/documents");
  both({.dtype = dtype, .size = {2, 100, 2, 1, 16}, .window = 30}, "/window");
  both({.dtype = dtype, .size = {1, 66, 3, 1, 20}, .layout = Layout::padded_rows, .soft_cap = 5}, "/soft_cap");
  both({.dtype = dtype, .size = {1, 100, 2, 2, 80}, .window = 7, .soft_cap = 2, .documents = {0, 65, 100}}, "/all_options");
  for (Size b : {Size{8, 256, 6, 6, 64}, Size{1, 1024, 9, 3, 64}}) {
    registry.bench({kOp, "forward", dtype, name_of(b), [=] { return forward({dtype, b}); }});
    registry.bench({kOp, "backward", dtype, name_of(b), [=] { return backward({dtype, b}); }});
  }
  const Size gpu{32, 1024, 12, 12, 64};
  registry.bench_gpu({kOp, "forward", dtype, name_of(gpu), [=] { return forward({dtype, gpu}); }});
  registry.bench_gpu({kOp, "backward", dtype, name_of(gpu), [=] { return backward({dtype, gpu}); }});
}

void add_rejections(Registry& registry) {
  const auto reject = [&](const char* name, Shape qkv, int64_t kv_heads, DType dtype = DType::f32, float scale = 0) {
    registry.rejects(kOp, name, [=](Device& d) { packed_attention(Tensor::empty(d, qkv, dtype), kv_heads, scale); });
  };
  reject("rank", {4, 3, 8}, 1);
  reject("no_key_heads", {1, 4, 3, 8}, 0);
  reject("no_query_heads", {1, 4, 4, 8}, 2);
  reject("too_few_heads", {1, 4, 3, 8}, 2);
  reject("heads_no_multiple", {1, 4, 7, 8}, 2);
  reject("head_dim_zero", {1, 4, 3, 0}, 1);
  reject("head_dim_too_large", {1, 4, 3, 257}, 1);
  reject("integers", {1, 4, 3, 8}, 1, DType::i32);
  reject("scale_nan", {1, 4, 3, 8}, 1, DType::f32, NAN);
  const auto reject_options = [&](const char* name, int64_t B, int64_t window, std::vector<int32_t> documents) {
    registry.rejects(kOp, name, [=](Device& d) {
      AttentionOptions options{.window = window};
      if (!documents.empty()) options.documents = Tensor::from_host(d, {int64_t(documents.size())}, documents);
      packed_attention(Tensor::empty(d, {B, 4, 3, 8}), 1, options);
    });
  };
  reject_options("window_negative", 1, -1, {});
  reject_options("documents_of_two_sequences", 2, 0, {0, 4});
  reject_options("documents_end_early", 1, 0, {0, 3});
  registry.rejects(kOp, "undefined", [](Device&) { packed_attention(Tensor(), 1); });
  registry.rejects(kOp, "strided_elements", [](Device& d) { packed_attention(Tensor::empty(d, {1, 4, 8, 3}).permute({0, 1, 3, 2}), 1); });
  registry.rejects(kOp, "gradient_shape", [](Device& d) {
    const Tensor qkv = Tensor::empty(d, {1, 4, 3, 8}), o = Tensor::empty(d, {1, 4, 1, 8}), lse = Tensor::empty(d, {1, 1, 4});
    const Tensor dqkv = Tensor::empty(d, {1, 4, 4, 8});
    packed_attention_backward(
        d.stream(),
        {.dout = o.view(), .qkv = qkv.view(), .o = o.view(), .lse = lse.view(), .dqkv = dqkv.mut_view(), .kv_heads = 1, .scale = 1});
  });
}

}  // namespace

void add_specs_packed_attention(Registry& registry) {
  for (DType dtype : {DType::f32, DType::bf16}) add_cases(registry, dtype);
  add_rejections(registry);
}

}  // namespace weft::spec
