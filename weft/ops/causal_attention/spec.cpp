#include <cmath>

#include "weft/ops/causal_attention/attention_truth.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

using namespace attention;

// Storage of q, k, v and their gradients.
enum class Store { by_token, by_head, packed };  // [B, T, H, D]; [B, H, T, D]; q, k, v in one [B, T, H + 2 Hkv, D]

Places places(const Size& s, Store store, const std::string& prefix) {
  const auto one = [&](const char* name, int64_t heads, int64_t offset) {
    return store == Store::packed ? Place{prefix + "qkv", s.T, s.H + 2 * s.Hkv, s.D, offset}
                                  : Place{prefix + name, s.T, heads, s.D, 0, store == Store::by_head};
  };
  return {one("q", s.H, 0), one("k", s.Hkv, s.H), one("v", s.Hkv, s.H + s.Hkv)};
}

// Declares the tensors behind q, k, v (or dq, dk, dv).
void declare(Problem& p, const Size& s, DType dtype, Store store, const std::string& prefix, bool outputs, Layout layout, Fill fill) {
  const auto add = [&](const std::string& name, int64_t heads) {
    const Shape shape = store == Store::by_head ? Shape{s.B, heads, s.T, s.D} : Shape{s.B, s.T, heads, s.D};
    outputs ? p.output(prefix + name, dtype, shape, layout) : p.input(prefix + name, dtype, shape, fill, layout);
  };
  if (store == Store::packed) return add("qkv", s.H + 2 * s.Hkv);
  add("q", s.H);
  add("k", s.Hkv);
  add("v", s.Hkv);
}

Problem forward(DType dtype, Size n, Store store, Layout layout = Layout::contiguous, Fill fill = normal(), float scale = 0) {
  Problem p;
  if (scale == 0) scale = 1 / std::sqrt(float(n.D));
  const Places at = places(n, store, "");
  const Place out{"o", n.T, n.H, n.D, 0, store == Store::by_head};
  declare(p, n, dtype, store, "", false, layout, fill);
  p.output("o", dtype, store == Store::by_head ? Shape{n.B, n.H, n.T, n.D} : Shape{n.B, n.T, n.H, n.D}, layout)
      .output("lse", DType::f32, {n.B, n.H, n.T});
  const auto args = [=](const Bound& b) {
    return CausalAttentionArgs{.q = at.q.of(b, n.H).view(),
                               .k = at.k.of(b, n.Hkv).view(),
                               .v = at.v.of(b, n.Hkv).view(),
                               .o = out.of(b, n.H).mut_view(),
                               .lse = b.mut("lse"),
                               .scale = scale};
  };
  p.run = [=](Stream& stream, const Bound& b) { causal_attention(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { expect_attention(t, at, out, n, scale); };
  return p;
}

Problem backward(DType dtype, Size n, Store store, Layout layout = Layout::contiguous, Fill fill = normal(), float scale = 0) {
  Problem p;
  if (scale == 0) scale = 1 / std::sqrt(float(n.D));
  const Places at = places(n, store, ""), grad = places(n, store, "d");
  const Place out{"o", n.T, n.H, n.D, 0, store == Store::by_head}, dout{"dout", n.T, n.H, n.D, 0, store == Store::by_head};
  const Shape shape = store == Store::by_head ? Shape{n.B, n.H, n.T, n.D} : Shape{n.B, n.T, n.H, n.D};
  declare(p, n, dtype, store, "", false, layout, fill);
  p.input("dout", dtype, shape, normal(), layout)
      .input("o", dtype, shape, constant(0), layout)
      .input("lse", DType::f32, {n.B, n.H, n.T}, constant(0));
  declare(p, n, dtype, store, "d", true, layout, {});
  p.prepare = [=](Truth& t) { attend(t, at, out, n, scale, t["o"], &t["lse"]); };
  const auto args = [=](const Bound& b) {
    return CausalAttentionBackwardArgs{.dout = dout.of(b, n.H).view(),
                                       .q = at.q.of(b, n.H).view(),
                                       .k = at.k.of(b, n.Hkv).view(),
                                       .v = at.v.of(b, n.Hkv).view(),
                                       .o = out.of(b, n.H).view(),
                                       .lse = b.view("lse"),
                                       .dq = grad.q.of(b, n.H).mut_view(),
                                       .dk = grad.k.of(b, n.Hkv).mut_view(),
                                       .dv = grad.v.of(b, n.Hkv).mut_view(),
                                       .scale = scale};
  };
  p.run = [=](Stream& stream, const Bound& b) { causal_attention_backward(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { differentiate(t, at, grad, out, n, scale); };
  p.loss = [=](const Truth& t) {
    Array o = t["o"];
    attend(t, at, out, n, scale, o, nullptr);
    double loss = 0;
    for (int64_t i = 0; i < o.size(); ++i) loss += o[i] * t["dout"][i];
    return loss;
  };
  p.derivatives = {{at.q.tensor, grad.q.tensor}};
  if (store != Store::packed) p.derivatives = {{"q", "dq"}, {"k", "dk"}, {"v", "dv"}};
  return p;
}

void add_golden(Registry& registry) {
  const auto size = [](const GoldenCase& g) {
    return Size{g.integer("batch"), g.integer("seq"), g.integer("heads"), g.integer("kv_heads"), g.integer("head_dim")};
  };
  const auto given = [](const GoldenCase& g, Problem p) {
    return p.given("q", g.values("q")).given("k", g.values("k")).given("v", g.values("v"));
  };
  registry.golden({"causal_attention", "golden_forward", "causal_attention.safetensors", [=](const GoldenCase& g) {
                     return given(g, forward(DType::f32, size(g), Store::by_token)).golden("o", g.values("o"));
                   }});
  registry.golden({"causal_attention", "golden_backward", "causal_attention.safetensors", [=](const GoldenCase& g) {
                     Problem p = given(g, backward(DType::f32, size(g), Store::by_token));
                     for (const char* name : {"dq", "dk", "dv"}) p.golden(name, g.values(name));
                     return p.given("dout", g.values("do"));
                   }});
}

void add_rejections(Registry& registry) {
  const auto reject = [&](const char* name, Shape q, Shape k, Shape v, DType k_dtype = DType::f32) {
    registry.rejects("causal_attention", name,
                     [=](Device& d) { causal_attention(Tensor::empty(d, q), Tensor::empty(d, k, k_dtype), Tensor::empty(d, v)); });
  };
  reject("rank", {4, 2, 8}, {4, 2, 8}, {4, 2, 8});
  reject("heads_no_multiple", {1, 4, 3, 8}, {1, 4, 2, 8}, {1, 4, 2, 8});
  reject("no_key_heads", {1, 4, 3, 8}, {1, 4, 0, 8}, {1, 4, 0, 8});
  reject("head_dim_differs", {1, 4, 2, 8}, {1, 4, 2, 16}, {1, 4, 2, 16});
  reject("head_dim_too_large", {1, 4, 2, 257}, {1, 4, 2, 257}, {1, 4, 2, 257});
  reject("head_dim_zero", {1, 4, 2, 0}, {1, 4, 2, 0}, {1, 4, 2, 0});
  reject("value_shape", {1, 4, 2, 8}, {1, 4, 2, 8}, {1, 5, 2, 8});
  reject("batch_differs", {2, 4, 2, 8}, {1, 4, 2, 8}, {1, 4, 2, 8});
  reject("dtypes_differ", {1, 4, 2, 8}, {1, 4, 2, 8}, {1, 4, 2, 8}, DType::bf16);
  registry.rejects("causal_attention", "undefined_values",
                   [](Device& d) { causal_attention(Tensor::empty(d, {1, 4, 2, 8}), Tensor::empty(d, {1, 4, 2, 8}), Tensor()); });
  registry.rejects("causal_attention", "strided_elements", [](Device& d) {
    causal_attention(Tensor::empty(d, {1, 4, 8, 2}).permute({0, 1, 3, 2}), Tensor::empty(d, {1, 4, 2, 8}), Tensor::empty(d, {1, 4, 2, 8}));
  });
  registry.rejects("causal_attention", "scale_nan", [](Device& d) {
    causal_attention(Tensor::empty(d, {1, 4, 2, 8}), Tensor::empty(d, {1, 4, 2, 8}), Tensor::empty(d, {1, 4, 2, 8}), NAN);
  });
}

}  // namespace

void add_specs_causal_attention(Registry& registry) {
  const char* op = "causal_attention";
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto both = [&](Size s, const std::string& suffix, Store store, Layout layout, Fill fill = normal(), float scale = 0,
                          bool smooth = true) {
      const std::string name = dims({s.B, s.T, s.H, s.Hkv, s.D}) + suffix;
      registry.add({op, "forward", dtype, name, [=] { return forward(dtype, s, store, layout, fill, scale); }});
      registry.add({op, "backward", dtype, name, [=] {
                      Problem p = backward(dtype, s, store, layout, fill, scale);
                      if (!smooth) p.loss = {};  // no finite differences of NaN, nor of a loss that cancels to nothing
                      return p;
                    }});
    };
    for (Size s : {Size{1, 1, 1, 1, 4}, Size{1, 17, 4, 2, 8}, Size{2, 65, 6, 2, 64}, Size{1, 130, 4, 4, 32}, Size{1, 33, 8, 1, 128},
                   Size{1, 63, 2, 1, 80}, Size{1, 64, 2, 2, 16}, Size{2, 31, 3, 3, 5}, Size{1, 19, 2, 1, 256}, Size{1, 200, 1, 1, 40},
                   Size{1, 300, 4, 2, 8}, Size{4, 260, 4, 4, 4}, Size{1, 530, 2, 1, 8}, Size{0, 4, 2, 1, 8}, Size{2, 0, 2, 1, 8}}) {
      both(s, "", Store::by_token, Layout::contiguous);
      both(s, "/by_head", Store::by_head, Layout::contiguous);
    }
    // Several tiles of keys at every padded head dim, however small the tiles of a GPU.
    for (Size s : {Size{1, 131, 2, 1, 80}, Size{1, 70, 2, 1, 200}}) both(s, "", Store::by_token, Layout::contiguous);
    both({2, 65, 6, 2, 64}, "/packed", Store::packed, Layout::contiguous);
    both({1, 70, 3, 1, 20}, "/packed", Store::packed, Layout::padded_rows);
    both({1, 83, 2, 1, 33}, "/padded", Store::by_head, Layout::padded_rows);
    both({1, 80, 2, 1, 24}, "/scale", Store::by_token, Layout::contiguous, normal(), 0.5f);
    both({1, 150, 2, 1, 16}, "/large_scores", Store::by_token, Layout::contiguous, normal(2.5));
    both({1, 100, 1, 1, 16}, "/equal_scores", Store::by_token, Layout::contiguous, constant(0.5), 0, false);
    both({1, 4101, 1, 1, 2}, "/long", Store::by_token, Layout::contiguous, normal(), 0, false);  // more positions than 12 bits count
    // Scores of 2e11: what is one rounding of them is more than any exponent, and the bound says no more than that outputs
    // are numbers.
    registry.add({op, "forward", dtype, "1x150x2x1x16/huge_equal_scores",
                  [=] { return forward(dtype, {1, 150, 2, 1, 16}, Store::by_token, Layout::contiguous, constant(199680)); }});
    // A NaN at one token reaches the queries after it (forward) and the keys before it (backward), and no others.
    both({1, 90, 2, 1, 16}, "/nan", Store::packed, Layout::contiguous, sprinkle(normal(), 90 * 4 * 16, 71 * 4 * 16 + 3 * 16 + 5, NAN), 0,
         false);
    both({1, 90, 2, 1, 16}, "/nan_query", Store::packed, Layout::contiguous, sprinkle(normal(), 90 * 4 * 16, 20 * 4 * 16 + 5, NAN), 0,
         false);
    both({1, 90, 2, 1, 16}, "/infinite_value", Store::packed, Layout::contiguous,
         sprinkle(normal(), 90 * 4 * 16, 71 * 4 * 16 + 3 * 16 + 5, INFINITY), 0, false);
    for (Size c : {Size{1, 128, 2, 1, 64}, Size{1, 256, 2, 1, 64}, Size{1, 131, 2, 1, 80}, Size{1, 70, 1, 1, 200}}) {
      const std::string name = dims({c.B, c.T, c.H, c.Hkv, c.D});
      registry.count({op, "forward", dtype, name, [=] { return forward(dtype, c, Store::by_token); }});
      registry.count({op, "backward", dtype, name, [=] { return backward(dtype, c, Store::by_token); }});
    }
    for (Size b : {Size{4, 4096, 32, 32, 128}, Size{32, 1024, 12, 12, 64}}) {
      const std::string name = dims({b.B, b.T, b.H, b.Hkv, b.D});
      registry.bench_gpu({op, "forward", dtype, name, [=] { return forward(dtype, b, Store::by_token); }});
      registry.bench_gpu({op, "backward", dtype, name, [=] { return backward(dtype, b, Store::by_token); }});
    }
    for (Size b : {Size{8, 256, 6, 6, 64}, Size{1, 1024, 9, 3, 64}}) {
      const std::string name = dims({b.B, b.T, b.H, b.Hkv, b.D});
      registry.bench({op, "forward", dtype, name, [=] { return forward(dtype, b, Store::by_token); }});
      registry.bench({op, "backward", dtype, name, [=] { return backward(dtype, b, Store::by_token); }});
    }
  }
  add_golden(registry);
  add_rejections(registry);
}

}  // namespace weft::spec
