#include <cmath>

#include "weft/ops/causal_attention/attention_setup.h"
#include "weft/ops/causal_attention/causal_attention.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

using namespace attention;

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

Problem forward(const Setup& s) {
  Problem p;
  const Size n = s.size;
  const Places at = places(n, s.store, "");
  const Place out = s.place("o");
  declare(p, n, s.dtype, s.store, "", false, s.layout, s.fill);
  p.output("o", s.dtype, s.out(), s.layout).output("lse", DType::f32, {n.B, n.H, n.T});
  declare_documents(p, s);
  const auto args = [=](const Bound& b) {
    return with_options(s, b,
                        CausalAttentionArgs{.q = at.q.of(b, n.H).view(),
                                            .k = at.k.of(b, n.Hkv).view(),
                                            .v = at.v.of(b, n.Hkv).view(),
                                            .o = out.of(b, n.H).mut_view(),
                                            .lse = b.mut("lse"),
                                            .scale = 0});
  };
  p.run = [=](Stream& stream, const Bound& b) { causal_attention(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { expect_attention(t, at, out, n, s.rule()); };
  return p;
}

Problem backward(const Setup& s) {
  Problem p;
  const Size n = s.size;
  const Places at = places(n, s.store, ""), grad = places(n, s.store, "d");
  const Place out = s.place("o"), dout = s.place("dout");
  declare(p, n, s.dtype, s.store, "", false, s.layout, s.fill);
  p.input("dout", s.dtype, s.out(), normal(), s.layout)
      .input("o", s.dtype, s.out(), constant(0), s.layout)
      .input("lse", DType::f32, {n.B, n.H, n.T}, constant(0));
  declare_documents(p, s);
  declare(p, n, s.dtype, s.store, "d", true, s.layout, {});
  p.prepare = [=](Truth& t) { attend(t, at, out, n, s.rule(), t["o"], &t["lse"]); };
  const auto args = [=](const Bound& b) {
    return with_options(s, b,
                        CausalAttentionBackwardArgs{.dout = dout.of(b, n.H).view(),
                                                    .q = at.q.of(b, n.H).view(),
                                                    .k = at.k.of(b, n.Hkv).view(),
                                                    .v = at.v.of(b, n.Hkv).view(),
                                                    .o = out.of(b, n.H).view(),
                                                    .lse = b.view("lse"),
                                                    .dq = grad.q.of(b, n.H).mut_view(),
                                                    .dk = grad.k.of(b, n.Hkv).mut_view(),
                                                    .dv = grad.v.of(b, n.Hkv).mut_view(),
                                                    .scale = 0});
  };
  p.run = [=](Stream& stream, const Bound& b) { causal_attention_backward(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { differentiate(t, at, grad, out, n, s.rule()); };
  if (!s.smooth) return p;  // no finite differences of NaN, nor of a loss that cancels to nothing
  p.loss = [=](const Truth& t) { return loss(t, at, s); };
  p.derivatives = {{at.q.tensor, grad.q.tensor}};
  if (s.store != Store::packed) p.derivatives = {{"q", "dq"}, {"k", "dk"}, {"v", "dv"}};
  return p;
}

void add_golden(Registry& registry) {
  const auto size = [](const GoldenCase& g) {
    return Size{g.integer("batch"), g.integer("seq"), g.integer("heads"), g.integer("kv_heads"), g.integer("head_dim")};
  };
  const auto given = [](const GoldenCase& g, Problem p) {
    return p.given("q", g.values("q")).given("k", g.values("k")).given("v", g.values("v"));
  };
  // Without documents, a list of none.
  const auto with_options = [=](const GoldenCase& g) {
    return Setup{.dtype = DType::f32,
                 .size = size(g),
                 .window = g.integer("window"),
                 .soft_cap = float(g.number("soft_cap")),
                 .documents = g.numbers("documents")};
  };
  const auto given_gradients = [=](const GoldenCase& g, Problem p) {
    for (const char* name : {"dq", "dk", "dv"}) p.golden(name, g.values(name));
    return given(g, p).given("dout", g.values("do"));
  };
  registry.golden({"causal_attention", "golden_options_forward", "attention_options.safetensors",
                   [=](const GoldenCase& g) { return given(g, forward(with_options(g))).golden("o", g.values("o")); }});
  registry.golden({"causal_attention", "golden_options_backward", "attention_options.safetensors",
                   [=](const GoldenCase& g) { return given_gradients(g, backward(with_options(g))); }});
  registry.golden({"causal_attention", "golden_forward", "causal_attention.safetensors",
                   [=](const GoldenCase& g) { return given(g, forward({DType::f32, size(g)})).golden("o", g.values("o")); }});
  registry.golden({"causal_attention", "golden_backward", "causal_attention.safetensors",
                   [=](const GoldenCase& g) { return given_gradients(g, backward({DType::f32, size(g)})); }});
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

void add_option_rejections(Registry& registry) {
  const auto reject = [&](const char* name, int64_t B, std::vector<int32_t> documents, int64_t window = 0, float soft_cap = 0) {
    registry.rejects("causal_attention", name, [=](Device& d) {
      AttentionOptions options{.window = window, .soft_cap = soft_cap};
      if (!documents.empty()) options.documents = Tensor::from_host(d, {int64_t(documents.size())}, documents);
      const Tensor q = Tensor::empty(d, {B, 4, 2, 8});
      causal_attention(q, q, q, options);
    });
  };
  reject("documents_of_two_sequences", 2, {0, 4});
  reject("documents_end_early", 1, {0, 2, 3});
  reject("documents_end_late", 1, {0, 2, 5});
  reject("documents_not_from_zero", 1, {1, 4});
  reject("documents_descend", 1, {0, 3, 2, 4});
  reject("documents_negative", 1, {0, -1, 4});
  reject("window_negative", 1, {}, -1);
  reject("soft_cap_negative", 1, {}, 0, -1.0f);
  reject("soft_cap_nan", 1, {}, 0, NAN);
  reject("soft_cap_infinite", 1, {}, 0, INFINITY);
  const auto reject_tensor = [&](const char* name, Shape shape, DType dtype) {
    registry.rejects("causal_attention", name, [=](Device& d) {
      const Tensor q = Tensor::empty(d, {1, 4, 2, 8});
      causal_attention(q, q, q, {.documents = Tensor::empty(d, shape, dtype)});
    });
  };
  reject_tensor("documents_rank", {1, 2}, DType::i32);
  reject_tensor("documents_none", {0}, DType::i32);
  reject_tensor("documents_floats", {2}, DType::f32);
}

void add_both(Registry& registry, const std::string& name, const Setup& s) {
  const std::string full = dims({s.size.B, s.size.T, s.size.H, s.size.Hkv, s.size.D}) + name;
  registry.add({"causal_attention", "forward", s.dtype, full, [=] { return forward(s); }});
  registry.add({"causal_attention", "backward", s.dtype, full, [=] { return backward(s); }});
}

// A tile has 64 tokens on the CPU, 16 to 128 on a GPU; a segment of keys has 512.
void add_documents(Registry& registry, DType dtype) {
  const auto both = [&](const std::string& name, const Setup& s) { add_both(registry, "/" + name, s); };
  const auto every = [](int64_t length, int64_t T) {
    std::vector<int64_t> ends{0};
    while (ends.back() < T) ends.push_back(std::min(T, ends.back() + length));
    return ends;
  };
  both("one_document", {.dtype = dtype, .size = {1, 70, 2, 1, 16}, .documents = {0, 70}});
  both("documents", {.dtype = dtype, .size = {1, 200, 4, 2, 64}, .documents = {0, 1, 66, 130, 131, 195, 200}});
  both("empty_documents", {.dtype = dtype, .size = {1, 90, 2, 2, 16}, .documents = {0, 0, 17, 17, 17, 82, 90, 90, 90}});
  both("single_tokens", {.dtype = dtype, .size = {1, 19, 3, 1, 8}, .documents = every(1, 19)});
  both("many_documents", {.dtype = dtype, .size = {1, 260, 2, 1, 8}, .documents = every(7, 260)});
  both("tiles_of_documents", {.dtype = dtype, .size = {1, 256, 2, 1, 8}, .documents = every(64, 256)});
  both("segments", {.dtype = dtype, .size = {1, 1100, 1, 1, 4}, .smooth = false, .documents = {0, 30, 600, 1100}});
  both("no_documents", {.dtype = dtype, .size = {1, 0, 2, 1, 8}, .documents = {0}});
  both("documents_by_head", {.dtype = dtype, .size = {1, 131, 4, 2, 80}, .store = Store::by_head, .documents = {0, 65, 67, 131}});
  both("documents_packed",
       {.dtype = dtype, .size = {1, 100, 3, 1, 20}, .store = Store::packed, .layout = Layout::padded_rows, .documents = {0, 33, 98, 100}});
  both("documents", {.dtype = dtype, .size = {1, 133, 2, 1, 128}, .documents = {0, 66, 68, 133}});
  both("documents", {.dtype = dtype, .size = {1, 70, 2, 1, 256}, .documents = {0, 3, 68, 70}});
  // A NaN stays in its document: token 71 of those from 60 to 79.
  both("documents_nan", {.dtype = dtype,
                         .size = {1, 90, 2, 1, 16},
                         .store = Store::packed,
                         .fill = sprinkle(normal(), 90 * 4 * 16, 71 * 4 * 16 + 3 * 16 + 5, NAN),
                         .smooth = false,
                         .documents = {0, 60, 80, 90}});
}

void add_windows_and_soft_caps(Registry& registry, DType dtype) {
  const auto both = [&](const std::string& name, const Setup& s) { add_both(registry, "/" + name, s); };
  for (int64_t window : {1, 2, 17, 64, 65, 100, 150, 199, 200, 300})
    both(join("window_", window), {.dtype = dtype, .size = {1, 200, 2, 1, 16}, .window = window});
  both("window_63", {.dtype = dtype, .size = {2, 131, 4, 2, 80}, .store = Store::by_head, .window = 63});
  both("window_33", {.dtype = dtype, .size = {1, 100, 2, 1, 256}, .window = 33});
  both("window_128", {.dtype = dtype, .size = {1, 193, 2, 1, 128}, .layout = Layout::padded_rows, .window = 128});
  // Windows that begin after the first segment of keys, and ranges of keys in the backward that a query does not see.
  both("window_70", {.dtype = dtype, .size = {1, 1300, 1, 1, 4}, .smooth = false, .window = 70});
  both("window_600", {.dtype = dtype, .size = {1, 1300, 1, 1, 4}, .smooth = false, .window = 600});
  // A NaN at token 71 of a window of 12: queries 71 to 82 see it as a key; keys 60 to 71 see its query.
  both("window_nan", {.dtype = dtype,
                      .size = {1, 150, 2, 1, 16},
                      .store = Store::packed,
                      .fill = sprinkle(normal(), 150 * 4 * 16, 71 * 4 * 16 + 3 * 16 + 5, NAN),
                      .smooth = false,
                      .window = 12});
  both("window_nan_query", {.dtype = dtype,
                            .size = {1, 150, 2, 1, 16},
                            .store = Store::packed,
                            .fill = sprinkle(normal(), 150 * 4 * 16, 71 * 4 * 16 + 5, NAN),
                            .smooth = false,
                            .window = 12});
  for (float cap : {0.5f, 5.0f, 50.0f})
    both(join("soft_cap_", cap), {.dtype = dtype, .size = {1, 131, 2, 1, 16}, .fill = normal(1.5), .soft_cap = cap});
  both("soft_cap_20", {.dtype = dtype, .size = {2, 70, 4, 2, 64}, .store = Store::by_head, .soft_cap = 20});
  both("soft_cap_30", {.dtype = dtype, .size = {1, 66, 2, 2, 256}, .soft_cap = 30});
  both("soft_cap_scale", {.dtype = dtype, .size = {1, 80, 2, 1, 24}, .scale = 0.5f, .soft_cap = 3});
  both("documents_window", {.dtype = dtype, .size = {1, 200, 4, 2, 64}, .window = 40, .documents = {0, 1, 66, 106, 200}});
  // Windows that begin after a document's first tile of keys and end before its last.
  both("long_documents_window",
       {.dtype = dtype, .size = {1, 700, 2, 1, 8}, .smooth = false, .window = 150, .documents = {0, 30, 470, 700}});
  both("documents_soft_cap", {.dtype = dtype, .size = {1, 132, 2, 1, 80}, .soft_cap = 10, .documents = {0, 64, 65, 132}});
  both("all_options", {.dtype = dtype,
                       .size = {1, 193, 4, 1, 128},
                       .store = Store::packed,
                       .window = 65,
                       .soft_cap = 8,
                       .documents = {0, 5, 133, 133, 193}});
}

void add_benches(Registry& registry, DType dtype) {
  const char* op = "causal_attention";
  for (Size c : {Size{1, 128, 2, 1, 64}, Size{1, 256, 2, 1, 64}, Size{1, 131, 2, 1, 80}, Size{1, 70, 1, 1, 200}}) {
    const std::string name = dims({c.B, c.T, c.H, c.Hkv, c.D});
    registry.count({op, "forward", dtype, name, [=] { return forward({dtype, c}); }});
    registry.count({op, "backward", dtype, name, [=] { return backward({dtype, c}); }});
  }
  for (Size b : {Size{4, 4096, 32, 32, 128}, Size{32, 1024, 12, 12, 64}, Size{8, 4096, 16, 16, 64}, Size{2, 8192, 32, 8, 128}}) {
    const std::string name = dims({b.B, b.T, b.H, b.Hkv, b.D});
    registry.bench_gpu({op, "forward", dtype, name, [=] { return forward({dtype, b}); }});
    registry.bench_gpu({op, "backward", dtype, name, [=] { return backward({dtype, b}); }});
  }
  for (Size b : {Size{8, 256, 6, 6, 64}, Size{1, 1024, 9, 3, 64}}) {
    const std::string name = dims({b.B, b.T, b.H, b.Hkv, b.D});
    registry.bench({op, "forward", dtype, name, [=] { return forward({dtype, b}); }});
    registry.bench({op, "backward", dtype, name, [=] { return backward({dtype, b}); }});
  }
  // Documents of 256 tokens, and a window as long.
  const Size b{1, 1024, 9, 3, 64};
  const Setup documents{.dtype = dtype, .size = b, .documents = {0, 256, 512, 768, 1024}}, window{.dtype = dtype, .size = b, .window = 256};
  for (const auto& [name, s] : {std::pair{"/documents", documents}, std::pair{"/window", window}}) {
    const std::string full = dims({b.B, b.T, b.H, b.Hkv, b.D}) + name;
    registry.bench({op, "forward", dtype, full, [s = s] { return forward(s); }});
    registry.bench({op, "backward", dtype, full, [s = s] { return backward(s); }});
  }
}

}  // namespace

void add_specs_causal_attention(Registry& registry) {
  const char* op = "causal_attention";
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto both = [&](Size n, const std::string& suffix, Store store, Layout layout, Fill fill = normal(), float scale = 0,
                          bool smooth = true) {
      add_both(registry, suffix,
               {.dtype = dtype, .size = n, .store = store, .layout = layout, .fill = fill, .scale = scale, .smooth = smooth});
    };
    for (Size s : {Size{1, 1, 1, 1, 4}, Size{1, 17, 4, 2, 8}, Size{2, 65, 6, 2, 64}, Size{1, 130, 4, 4, 32}, Size{1, 33, 8, 1, 128},
                   Size{1, 63, 2, 1, 80}, Size{1, 64, 2, 2, 16}, Size{2, 31, 3, 3, 5}, Size{1, 19, 2, 1, 256}, Size{1, 200, 1, 1, 40},
                   Size{1, 300, 4, 2, 8}, Size{4, 260, 4, 4, 4}, Size{1, 530, 2, 1, 8}, Size{0, 4, 2, 1, 8}, Size{2, 0, 2, 1, 8}}) {
      both(s, "", Store::by_token, Layout::contiguous);
      both(s, "/by_head", Store::by_head, Layout::contiguous);
    }
    // Several tiles of keys at every padded head dim, however small the tiles of a GPU.
    for (Size s : {Size{1, 131, 2, 1, 80}, Size{1, 131, 1, 1, 80}, Size{1, 70, 2, 1, 200}})
      both(s, "", Store::by_token, Layout::contiguous);
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
                  [=] { return forward({.dtype = dtype, .size = {1, 150, 2, 1, 16}, .fill = constant(199680)}); }});
    // A NaN at one token reaches the queries after it (forward) and the keys before it (backward), and no others.
    both({1, 90, 2, 1, 16}, "/nan", Store::packed, Layout::contiguous, sprinkle(normal(), 90 * 4 * 16, 71 * 4 * 16 + 3 * 16 + 5, NAN), 0,
         false);
    both({1, 90, 2, 1, 16}, "/nan_query", Store::packed, Layout::contiguous, sprinkle(normal(), 90 * 4 * 16, 20 * 4 * 16 + 5, NAN), 0,
         false);
    both({1, 90, 2, 1, 16}, "/infinite_value", Store::packed, Layout::contiguous,
         sprinkle(normal(), 90 * 4 * 16, 71 * 4 * 16 + 3 * 16 + 5, INFINITY), 0, false);
    add_documents(registry, dtype);
    add_windows_and_soft_caps(registry, dtype);
    add_benches(registry, dtype);
  }
  add_golden(registry);
  add_rejections(registry);
  add_option_rejections(registry);
}

}  // namespace weft::spec
