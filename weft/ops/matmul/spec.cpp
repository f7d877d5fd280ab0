#include <cmath>

#include "weft/ops/matmul/problems.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

using matmul_problems::forward;
using matmul_problems::gradients;
using matmul_problems::Setup;
using matmul_problems::Size;
using matmul_problems::times_slope;
using matmul_problems::two_halves;

const char* layout_name(bool transpose_a, bool transpose_b) { return transpose_a ? transpose_b ? "TT" : "TN" : transpose_b ? "NT" : "NN"; }

struct Types {
  DType in, out;
  const char* suffix;
};
constexpr Types kTypes[] = {{DType::f32, DType::f32, ""}, {DType::bf16, DType::bf16, ""}, {DType::bf16, DType::f32, "/to_f32"}};

constexpr const char* kOp = "matmul";

// Setups of one choice of types and layout: changes of a plain one.
struct Variant {
  Types types;
  bool transpose_a, transpose_b;

  template <class Change>
  Setup with(Size size, Change change) const {
    Setup s{.in = types.in, .out = types.out, .size = size, .transpose_a = transpose_a, .transpose_b = transpose_b};
    change(s);
    return s;
  }
  Setup plain(Size size) const {
    return with(size, [](Setup&) {});
  }
  std::string name(Size size, const std::string& suffix) const { return dims({size.M, size.N, size.K}) + suffix + types.suffix; }
  std::string layout() const { return layout_name(transpose_a, transpose_b); }
};

void add_forward(Registry& registry, const Variant& v) {
  const auto add = [&](const std::string& name, const Setup& s) {
    registry.add({kOp, v.layout(), v.types.in, v.name(s.size, name), [=] { return forward(s); }});
  };
  for (Size size : {Size{1, 1, 1},
                    {3, 5, 7},
                    {17, 33, 65},
                    {64, 64, 64},
                    {33, 129, 65},
                    {13, 31, 300},
                    {1, 576, 192},
                    {5, 1, 9},
                    {130, 70, 257},
                    {250, 520, 40},
                    {30, 40, 1100},
                    {3, 40, 1100},
                    {4, 1500, 77}})
    add("", v.plain(size));
  for (Size size : {Size{3, 5, 7}, {2, 130, 33}, {37, 65, 41}, {64, 100, 41}, {242, 71, 300}})
    add("/padded", v.with(size, [](Setup& s) { s.layout = Layout::padded_rows; }));
  for (Size size : {Size{0, 8, 4}, {8, 0, 4}, {8, 5, 0}, {3, 5, 0}}) add("", v.plain(size));
  for (Size size : {Size{3, 9, 17}, {20, 35, 300}, {2, 4, 1}})
    for (bool shared : {false, true})
      for (Layout layout : {Layout::contiguous, Layout::padded_rows}) {
        const std::string name = std::string(shared ? "/shared_b" : "/own_b") + (layout == Layout::padded_rows ? "/padded" : "");
        add("/batch_3" + name, v.with(size, [=](Setup& s) { s.batch = {3}, s.shared_b = shared, s.layout = layout; }));
        add("/batch_2x3" + name, v.with(size, [=](Setup& s) { s.batch = {2, 3}, s.shared_b = shared, s.layout = layout; }));
      }
  for (Size size : {Size{3, 33, 70}, {19, 33, 300}, {26, 80, 1700}, {9, 5, 0}})
    for (auto [alpha, beta] : {std::pair{0.5f, 2.0f}, {1.0f, 1.0f}, {1.0f, -0.75f}, {3.0f, 0.0f}})
      add(join("/alpha_", alpha, "_beta_", beta), v.with(size, [=](Setup& s) { s.alpha = alpha, s.beta = beta; }));
  for (Size size : {Size{2, 35, 19}, {29, 67, 90}, {40, 130, 50}})
    for (Activation f : {Activation::none, Activation::relu, Activation::silu, Activation::gelu_tanh})
      for (bool pre : {false, true})
        if (!pre || f != Activation::none)
          add(join("/bias/", f, pre ? "/pre" : ""),
              v.with(size, [=](Setup& s) { s.bias = true, s.activation = f, s.keep_pre = pre, s.bias_dtype = pre ? s.out : DType::f32; }));
  for (Size size : {Size{3, 20, 33}, {21, 20, 33}}) {
    add("/nan", v.with(size, [](Setup& s) { s.a = sprinkle(normal(), 101, 40, NAN); }));
    add("/infinity", v.with(size, [](Setup& s) { s.a = sprinkle(normal(), 101, 40, INFINITY); }));
  }
  // More rows than the kernels for decoding take; the last size has more tiles of 128 x 192 than an H200 has multiprocessors.
  if (v.types.out == DType::bf16)
    for (Size size : {Size{65, 40, 8}, {100, 192, 200}, {129, 200, 72}, {260, 390, 136}, {2200, 1544, 72}})
      for (bool pre : {false, true})
        if (pre || size.M < 1000)
          add(join("/bias/", Activation::gelu_tanh, pre ? "/pre" : ""), v.with(size, [=](Setup& s) {
            s.bias = size.N != 192, s.activation = Activation::gelu_tanh, s.keep_pre = pre, s.bias_dtype = pre ? s.out : DType::f32;
          }));
  if (v.types.in != DType::f32) return;
  for (Size size : {Size{3, 5, 7}, {64, 64, 64}, {130, 70, 257}, {4, 1500, 77}})
    add("/tf32", v.with(size, [](Setup& s) { s.precision = Precision::tf32; }));
  add("/tf32/alpha_0.5_beta_2/bias",
      v.with({20, 40, 300}, [](Setup& s) { s.precision = Precision::tf32, s.alpha = 0.5f, s.beta = 2, s.bias = true; }));
}

void add_gradients(Registry& registry, const Variant& v) {
  const auto add = [&](const std::string& name, const Setup& s) {
    registry.add({kOp, v.layout() + "_backward", v.types.in, v.name(s.size, name), [=] { return gradients(s); }});
  };
  for (Size size : {Size{1, 1, 1}, {3, 5, 7}, {17, 33, 13}, {0, 3, 4}, {3, 0, 4}}) {
    add("", v.plain(size));
    add("/batch_2x3/own_b", v.with(size, [](Setup& s) { s.batch = {2, 3}; }));
    add("/batch_3/shared_b", v.with(size, [](Setup& s) { s.batch = {3}, s.shared_b = true; }));
    add("/batch_0/shared_b", v.with(size, [](Setup& s) { s.batch = {0}, s.shared_b = true; }));
  }
  for (Activation f : {Activation::none, Activation::relu, Activation::silu, Activation::gelu_tanh})
    add(join("/bias/", f), v.with({9, 19, 11}, [=](Setup& s) { s.bias = true, s.activation = f, s.batch = {2}, s.shared_b = true; }));
  if (v.types.in != DType::f32) return;
  for (Size size : {Size{3, 5, 7}, {64, 64, 64}, {130, 70, 257}, {4, 1500, 77}})
    add("/tf32", v.with(size, [](Setup& s) { s.precision = Precision::tf32; }));
}

void add_slopes(Registry& registry, const Variant& v) {
  const auto add = [&](const std::string& name, const Setup& s) {
    registry.add({kOp, v.layout() + "_slope", v.types.in, v.name(s.size, name), [=] { return times_slope(s); }});
  };
  const auto with = [&](Size size, Activation f, bool sums) {
    return v.with(size, [=](Setup& s) { s.activation = f, s.column_sums = sums, s.a = normal(3); });
  };
  for (Size size : {Size{1, 1, 1}, {3, 5, 7}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}, {70, 33, 20}}) {
    for (Activation f : {Activation::relu, Activation::silu, Activation::gelu_tanh}) add(join("/", f), with(size, f, true));
    Setup padded = with(size, Activation::gelu_tanh, true);
    padded.layout = Layout::padded_rows;
    add("/padded", padded);
  }
  Setup batch = with({3, 8, 7}, Activation::gelu_tanh, true);
  batch.batch = {2, 3}, batch.shared_b = true;
  if (!v.transpose_a) add("/batch_2x3", batch);
  // The sizes of the forward cases with many rows.
  for (Size size : {Size{65, 40, 8}, {100, 192, 200}, {129, 200, 72}, {260, 390, 136}, {2200, 1544, 72}})
    for (bool sums : {false, true})
      if (sums || size.M < 1000) add(sums ? "/sums" : "", with(size, Activation::gelu_tanh, sums));
}

// More than one slab of packed B, of packed A, one group of a batch; and K cut in two.
void add_slabs(Registry& registry) {
  const auto big = [&](const char* name, Setup s) { registry.add({kOp, "slabs", s.in, name, [=] { return forward(s); }}); };
  big("columns", {.size = {241, 3900, 1100}});
  big("rows", {.size = {241, 33, 70000}, .transpose_a = true});
  big("steps_of_depth_in_c", {.size = {25, 144, 2500}, .transpose_a = true, .batch = {2}});
  big("past_the_caches", {.size = {2050, 2064, 3}});
  big("past_the_caches_transposed", {.size = {128, 32784, 3}, .transpose_b = true});
  for (bool ta : {false, true})
    big(ta ? "rows_of_b_share_sets_tn" : "rows_of_b_share_sets_nn", {.size = {520, 1024, 900}, .transpose_a = ta});
  big("rows_below_find_b_packed", {.size = {800, 256, 1000}, .transpose_b = true});
  big("batch", {.size = {250, 9, 16000}, .transpose_b = true, .batch = {5}});
  big("rows", {.in = DType::bf16, .size = {1060, 7, 8200}, .transpose_a = true});
  big("past_the_caches", {.in = DType::bf16, .size = {2050, 2064, 3}});
  big("batch", {.in = DType::bf16, .size = {40, 9, 50000}, .transpose_b = true, .batch = {5}});
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (Size size : {Size{3, 40, 50}, {29, 45, 777}, {40, 205, 70}, {128, 150, 515}, {260, 70, 515}, {520, 64, 1700}})
        for (DType dtype : {DType::f32, DType::bf16})
          registry.add({kOp, "two_halves", dtype, join(layout_name(ta, tb), "/", dims({size.M, size.N, size.K})), [=] {
                          return two_halves({.in = dtype, .size = size, .transpose_a = ta, .transpose_b = tb},
                                            dtype == DType::f32 ? size.K / 2 + 3 : (size.K / 2 + 31) / 32 * 32);
                        }});
}

void add_benches(Registry& registry) {
  for (const Types& types : {kTypes[0], kTypes[2]}) {
    const Size sizes[] = {{128, 576, 576},   {128, 1536, 576},  {128, 576, 1536},   {128, 49152, 576},  {1024, 768, 768},
                          {1024, 3072, 768}, {1024, 768, 3072}, {1024, 50304, 768}, {2048, 2048, 2048}, {1, 49152, 576}};
    for (Size s : sizes)
      for (auto [ta, tb] : {std::pair{false, false}, {false, true}, {true, false}})
        if (s.M > 1 || !ta)
          registry.bench({kOp, layout_name(ta, tb), types.in, dims({s.M, s.N, s.K}) + types.suffix,
                          [=] { return forward({.in = types.in, .out = types.out, .size = s, .transpose_a = ta, .transpose_b = tb}); }});
  }

  // GPT-2 124M over 8192 tokens (attention, MLP up and down, head) and Llama 1B over 4096.
  for (Size s : {Size{8192, 2304, 768},
                 {8192, 768, 768},
                 {8192, 3072, 768},
                 {8192, 768, 3072},
                 {8192, 50304, 768},
                 {4096, 2048, 2048},
                 {4096, 8192, 2048},
                 {4096, 2048, 8192},
                 {4096, 128256, 2048}})
    registry.bench_gpu({kOp, "NT", DType::bf16, dims({s.M, s.N, s.K}),
                        [=] { return forward({.in = DType::bf16, .out = DType::bf16, .size = s, .transpose_b = true}); }});
}

void add_golden(Registry& registry) {
  const auto size_of_case = [](const GoldenCase& g) { return Size{g.integer("m"), g.integer("n"), g.integer("k")}; };
  registry.golden(
      {kOp, "golden_forward", "matmul.safetensors", [=](const GoldenCase& g) {
         return forward({.size = size_of_case(g)}).given("a", g.values("a")).given("b", g.values("b")).golden("c", g.values("y"));
       }});
  registry.golden({kOp, "golden_backward", "matmul.safetensors", [=](const GoldenCase& g) {
                     Problem p = gradients({.size = size_of_case(g)});
                     p.given("a", g.values("a")).given("b", g.values("b")).given("dc", g.values("dy"));
                     return p.golden("da", g.values("da")).golden("db", g.values("db"));
                   }});
}

void add_rejections(Registry& registry) {
  const auto rejects = [&](const char* name, auto attempt) { registry.rejects(kOp, name, attempt); };
  const auto empty = [](Device& d, Shape shape, DType dtype = DType::f32) { return Tensor::empty(d, shape, dtype); };
  rejects("inner_extents", [=](Device& d) { matmul(empty(d, {3, 4}), empty(d, {5, 6})); });
  rejects("inner_extents_transposed", [=](Device& d) { matmul(empty(d, {3, 4}), empty(d, {4, 6}), {.transpose_b = true}); });
  rejects("mixed_dtypes", [=](Device& d) { matmul(empty(d, {3, 4}), empty(d, {4, 6}, DType::bf16)); });
  rejects("bf16_from_f32", [=](Device& d) { matmul(empty(d, {3, 4}), empty(d, {4, 6}), {.out_dtype = DType::bf16}); });
  rejects("integers", [=](Device& d) { matmul(empty(d, {3, 4}, DType::i32), empty(d, {4, 6}, DType::i32)); });
  rejects("bias_length", [=](Device& d) { matmul(empty(d, {3, 4}), empty(d, {4, 6}), {.bias = empty(d, {5})}); });
  rejects("bias_dtype", [=](Device& d) { matmul(empty(d, {3, 4}), empty(d, {4, 6}), {.bias = empty(d, {6}, DType::bf16)}); });
  rejects("tf32_of_bf16",
          [=](Device& d) { matmul(empty(d, {3, 4}, DType::bf16), empty(d, {4, 6}, DType::bf16), {.precision = Precision::tf32}); });
  rejects("unknown_precision", [=](Device& d) { matmul(empty(d, {3, 4}), empty(d, {4, 6}), {.precision = Precision(7)}); });
  rejects("unknown_activation", [=](Device& d) { matmul(empty(d, {3, 4}), empty(d, {4, 6}), {.activation = Activation(7)}); });
  rejects("transposed_view", [=](Device& d) { matmul(empty(d, {4, 3}).permute({1, 0}), empty(d, {4, 6})); });
  rejects("vector", [=](Device& d) { matmul(empty(d, {4}), empty(d, {4, 6})); });
  rejects("rank_5", [=](Device& d) { matmul(empty(d, {1, 1, 1, 3, 4}), empty(d, {4, 6})); });
  rejects("batch_extents", [=](Device& d) { matmul(empty(d, {2, 3, 4}), empty(d, {3, 4, 6})); });
  rejects("undefined_a", [=](Device& d) { matmul(Tensor(), empty(d, {4, 6})); });
  rejects("undefined_b", [=](Device& d) { matmul(empty(d, {3, 4}), Tensor()); });
  const auto launch = [=](Device& d, Shape c, Tensor pre, float alpha) {
    const Tensor a = empty(d, {3, 4}), b = empty(d, {4, 6}), out = empty(d, c);
    matmul(d.stream(), {.a = a.view(), .b = b.view(), .c = out.mut_view(), .bias = {}, .pre = pre.mut_view(), .alpha = alpha});
  };
  rejects("result_shape", [=](Device& d) { launch(d, {3, 7}, Tensor(), 1); });
  rejects("pre_without_activation", [=](Device& d) { launch(d, {3, 6}, empty(d, {3, 6}), 1); });
  const auto slope = [=](Device& d, auto change) {
    const Tensor a = empty(d, {3, 4}), b = empty(d, {4, 6}), c = empty(d, {3, 6}), x = empty(d, {3, 6}), sums = empty(d, {6});
    MatmulArgs args{.a = a.view(),
                    .b = b.view(),
                    .c = c.mut_view(),
                    .bias = {},
                    .pre = {},
                    .slope_of = x.view(),
                    .column_sums = sums.mut_view(),
                    .activation = Activation::silu,
                    .any_order = true};
    change(args);
    matmul(d.stream(), args);
  };
  rejects("slope_without_activation", [=](Device& d) { slope(d, [](MatmulArgs& args) { args.activation = Activation::none; }); });
  rejects("slope_with_bias", [=](Device& d) { slope(d, [](MatmulArgs& args) { args.bias = args.column_sums; }); });
  rejects("slope_with_pre", [=](Device& d) { slope(d, [](MatmulArgs& args) { args.pre = args.c; }); });
  rejects("slope_with_beta", [=](Device& d) { slope(d, [](MatmulArgs& args) { args.beta = 1; }); });
  rejects("slope_in_one_order", [=](Device& d) { slope(d, [](MatmulArgs& args) { args.any_order = false; }); });
  rejects("slope_shape", [=](Device& d) { slope(d, [](MatmulArgs& args) { args.slope_of.shape = {3, 5}; }); });
  rejects("column_sums_length", [=](Device& d) { slope(d, [](MatmulArgs& args) { args.column_sums.shape = {5}; }); });
  rejects("column_sums_without_slope", [=](Device& d) { slope(d, [](MatmulArgs& args) { args.slope_of = {}; }); });
  rejects("alpha_not_finite", [=](Device& d) { launch(d, {3, 6}, Tensor(), NAN); });
}

}  // namespace

void add_specs_matmul(Registry& registry) {
  for (const Types& types : kTypes)
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        add_forward(registry, {types, ta, tb});
        add_gradients(registry, {types, ta, tb});
        if (!ta && types.in == types.out) add_slopes(registry, {types, ta, tb});
      }
  add_slabs(registry);
  add_benches(registry);
  add_golden(registry);
  add_rejections(registry);
  matmul_problems::add_int8_cases(registry);
}

}  // namespace weft::spec
