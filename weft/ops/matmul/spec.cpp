#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/elementwise/activation_truth.h"
#include "weft/ops/matmul/matmul.h"
#include "weft/spec/registry.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

struct Size {
  int64_t M, N, K;
};

struct Setup {
  DType in = DType::f32, out = DType::f32;
  Size size;
  bool transpose_a = false, transpose_b = false;
  Shape batch = {};
  bool shared_b = false;
  float alpha = 1, beta = 0;
  bool bias = false, keep_pre = false;
  DType bias_dtype = DType::f32;
  Activation activation = Activation::none;
  Layout layout = Layout::contiguous;
  Fill a = normal();
  Precision precision = Precision::f32;

  int64_t matrices() const { return batch.numel(); }
  Shape shape(int64_t rows, int64_t columns, bool batched = true) const {
    Shape s = batched ? batch : Shape{};
    s.push_back(rows);
    s.push_back(columns);
    return s;
  }
  Shape a_shape() const { return transpose_a ? shape(size.K, size.M) : shape(size.M, size.K); }
  Shape b_shape() const { return transpose_b ? shape(size.N, size.K, !shared_b) : shape(size.K, size.N, !shared_b); }
  Shape c_shape() const { return shape(size.M, size.N); }
  int64_t a_at(int64_t g, int64_t m, int64_t k) const { return (g * size.M * size.K) + (transpose_a ? k * size.M + m : m * size.K + k); }
  int64_t b_at(int64_t g, int64_t n, int64_t k) const {
    return (shared_b ? 0 : g * size.K * size.N) + (transpose_b ? n * size.K + k : k * size.N + n);
  }
  int64_t c_at(int64_t g, int64_t m, int64_t n) const { return (g * size.M + m) * size.N + n; }
};

// Sums over k, and of magnitudes: alpha a b + beta c + bias for one row of c.
struct RowSums {
  std::vector<double> value, scale;
};
RowSums row_sums(const Setup& s, const Truth& t, int64_t g, int64_t m) {
  const auto [M, N, K] = s.size;
  RowSums r{std::vector<double>(size_t(N), 0), std::vector<double>(size_t(N), 0)};
  const Array &a = t["a"], &b = t["b"];
  for (int64_t k = 0; k < K; ++k) {
    const double x = s.alpha * a[s.a_at(g, m, k)];
    for (int64_t n = 0; n < N; ++n) {
      const double term = x * b[s.b_at(g, n, k)];
      r.value[size_t(n)] += term;
      r.scale[size_t(n)] += std::abs(term);
    }
  }
  for (int64_t n = 0; n < N; ++n) {
    const double more[] = {s.beta != 0 ? s.beta * t["c"][s.c_at(g, m, n)] : 0, s.bias ? t["bias"][n] : 0};
    for (double term : more) {
      r.value[size_t(n)] += term;
      r.scale[size_t(n)] += std::abs(term);
    }
  }
  return r;
}

// A chain of K fused steps, then beta c, alpha and bias.
double roundings(const Setup& s) { return double(s.size.K) + 3; }

// TF32 keeps 10 bits of fraction: each operand is off by less than 2^-10 of itself, whether rounded or cut.
constexpr double kTf32 = 0x1p-9 + 0x1p-20;

// The slopes of silu and gelu_tanh stay below 1.13, their second derivatives below 1.
constexpr double kSteepest = 1.13, kCurvature = 1;

void add_operands(Problem& p, const Setup& s) {
  p.input("a", s.in, s.a_shape(), s.a, s.layout).input("b", s.in, s.b_shape(), normal(), s.layout);
  if (s.bias) p.input("bias", s.bias_dtype, {s.size.N}, normal());
}

Problem forward(const Setup& s) {
  Problem p;
  add_operands(p, s);
  if (s.beta != 0)
    p.in_place("c", s.out, s.c_shape(), normal(), s.layout);
  else
    p.output("c", s.out, s.c_shape(), s.layout);
  if (s.keep_pre) p.output("pre", s.out, s.c_shape(), s.layout);
  const auto args = [=](const Bound& b) {
    return MatmulArgs{.a = b.view("a"),
                      .b = b.view("b"),
                      .c = b.mut("c"),
                      .bias = s.bias ? b.view("bias") : View{},
                      .pre = s.keep_pre ? b.mut("pre") : MutView{},
                      .transpose_a = s.transpose_a,
                      .transpose_b = s.transpose_b,
                      .alpha = s.alpha,
                      .beta = s.beta,
                      .activation = s.activation,
                      .precision = s.precision};
  };
  p.run = [=](Stream& stream, const Bound& b) { matmul(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    Array& c = t[s.beta != 0 ? result("c") : "c"];
    for (int64_t g = 0; g < s.matrices(); ++g)
      for (int64_t m = 0; m < s.size.M; ++m) {
        const RowSums sums = row_sums(s, t, g, m);
        for (int64_t n = 0; n < s.size.N; ++n) {
          const int64_t i = s.c_at(g, m, n);
          const double value = sums.value[size_t(n)], scale = sums.scale[size_t(n)];
          const double error = growth(roundings(s)) * unit_roundoff(DType::f32) * scale;
          if (s.keep_pre) t["pre"].expect(i, value, scale, roundings(s));
          if (s.activation == Activation::none) {
            c.expect(i, value, scale, roundings(s));
            if (s.precision == Precision::tf32) c.allow_narrow(i, scale, kTf32);
          } else {
            const ActivationTruth f = activation_truth(s.activation, value);
            c.expect_within(i, f.y, kSteepest * error + f.y_error);
          }
        }
      }
  };
  return p;
}

// The backward rule of the tensor-level function, as autograd would call it.
Problem gradients(const Setup& s) {
  Problem p;
  add_operands(p, s);
  p.input("dc", s.out, s.c_shape(), normal(), s.layout);
  p.output("da", DType::f32, s.a_shape()).output("db", DType::f32, s.b_shape());
  if (s.bias) p.output("dbias", DType::f32, {s.size.N});
  p.run = [=](Stream&, const Bound& bound) {
    const auto leaf = [&](const char* name) { return bound.tensor(name).detach().set_requires_grad(); };
    const Tensor a = leaf("a"), b = leaf("b"), bias = s.bias ? leaf("bias") : Tensor();
    const Tensor c = matmul(a, b,
                            {.transpose_a = s.transpose_a,
                             .transpose_b = s.transpose_b,
                             .bias = bias,
                             .activation = s.activation,
                             .out_dtype = s.out,
                             .precision = s.precision});
    const std::vector<Tensor> grads = c.node()->backward({{bound.tensor("dc")}, {true, true, s.bias}});
    copy(grads[0], bound.tensor("da"));
    copy(grads[1], bound.tensor("db"));
    if (s.bias) copy(grads[2], bound.tensor("dbias"));
  };
  p.reference = [=](Truth& t) {
    const auto [M, N, K] = s.size;
    const double u = unit_roundoff(DType::f32), rounded = s.in == DType::bf16 ? unit_roundoff(DType::bf16) : 0;
    const auto magnitudes = [](const Array& like) { return std::vector<double>(like.v.size(), 0); };
    std::vector<double> da = magnitudes(t["da"]), db = magnitudes(t["db"]), dbias(size_t(N), 0);  // sums of magnitudes
    std::vector<double> ea = da, eb = db, ebias = dbias;                                          // errors that came in with d
    for (int64_t g = 0; g < s.matrices(); ++g)
      for (int64_t m = 0; m < M; ++m) {
        const RowSums sums = row_sums(s, t, g, m);
        for (int64_t n = 0; n < N; ++n) {
          // d = dc f'(pre): pre errs by its sum and its storage, and moves the slope by that much times f''; at relu's
          // corner it may take the other side. Then a product and, in bf16, a rounding.
          const double dc = t["dc"][s.c_at(g, m, n)], pre = sums.value[size_t(n)];
          const ActivationTruth f = activation_truth(s.activation, pre);
          const double pre_error = s.activation == Activation::none ? 0
                                                                    : growth(roundings(s)) * u * sums.scale[size_t(n)] +
                                                                          (s.out == DType::bf16 ? rounded : 0) * std::abs(pre);
          const double step = s.activation == Activation::relu ? double(std::abs(pre) <= pre_error) : kCurvature * pre_error;
          const double d = dc * f.slope, error = std::abs(dc) * (step + f.slope_error) + (rounded + 2 * u) * std::abs(d);
          for (int64_t k = 0; k < K; ++k) {
            const size_t i = size_t(s.a_at(g, m, k)), j = size_t(s.b_at(g, n, k));
            const double a = t["a"].v[i], b = t["b"].v[j];
            t["da"].v[i] += d * b;
            da[i] += std::abs(d * b);
            ea[i] += error * std::abs(b);
            t["db"].v[j] += d * a;
            db[j] += std::abs(d * a);
            eb[j] += error * std::abs(a);
          }
          if (!s.bias) continue;
          t["dbias"].v[size_t(n)] += d;
          dbias[size_t(n)] += std::abs(d);
          ebias[size_t(n)] += error;
        }
      }
    const int64_t rows = M * s.matrices();
    const auto expect = [&](Array& out, const std::vector<double>& scale, const std::vector<double>& error, int64_t length) {
      for (size_t i = 0; i < out.v.size(); ++i) {
        out.expect_within(int64_t(i), out.v[i], 1.01 * error[i] + growth(double(length) + 2) * u * scale[i]);
        if (s.precision == Precision::tf32) out.allow_narrow(int64_t(i), scale[i], kTf32);
      }
    };
    expect(t["da"], da, ea, N);
    expect(t["db"], db, eb, s.shared_b ? rows : M);
    if (s.bias) expect(t["dbias"], dbias, ebias, rows);
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t g = 0; g < s.matrices(); ++g)
      for (int64_t m = 0; m < s.size.M; ++m) {
        const RowSums sums = row_sums(s, t, g, m);
        for (int64_t n = 0; n < s.size.N; ++n) loss += t["dc"][s.c_at(g, m, n)] * activation_truth(s.activation, sums.value[size_t(n)]).y;
      }
    return loss;
  };
  p.derivatives = {{"a", "da"}, {"b", "db"}};
  if (s.bias) p.derivatives.push_back({"bias", "dbias"});
  return p;
}

// K in two calls with beta = 1: the promise, on the CPU, that the bits are those of one call; of bf16 where the cut is at a multiple of 32.
Problem two_halves(const Setup& s, int64_t first) {
  Problem p = forward(s);
  p.output("c2", s.out, s.c_shape());
  const auto whole = p.run;
  p.run = [=](Stream& stream, const Bound& b) {
    whole(stream, b);
    const auto half = [&](int64_t from, int64_t to, float beta) {
      const Tensor a = b.tensor("a").part(s.transpose_a ? -2 : -1, from, to), other = b.tensor("b").part(s.transpose_b ? -1 : -2, from, to);
      matmul(stream, {.a = a.view(),
                      .b = other.view(),
                      .c = b.mut("c2"),
                      .bias = {},
                      .pre = {},
                      .transpose_a = s.transpose_a,
                      .transpose_b = s.transpose_b,
                      .beta = beta});
    };
    half(0, first, 0);
    half(first, s.size.K, 1);
    if (stream.device().dialect() != Dialect::c) return;
    check(b.tensor("c").to_host<float>() == b.tensor("c2").to_host<float>(), "check", "two calls gave other bits than one");
  };
  const auto reference = p.reference;
  p.reference = [=](Truth& t) {
    reference(t);
    t["c2"] = t["c"];
  };
  return p;
}

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

void add_products(Registry& registry, const Variant& v) {
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

// Beyond one slab of packed B, one of packed A, one group of a batch; and K cut in two.
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
        if (!tb || size.M > MatmulArgs::kFewRows)
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
  rejects("alpha_not_finite", [=](Device& d) { launch(d, {3, 6}, Tensor(), NAN); });
}

}  // namespace

void add_specs_matmul(Registry& registry) {
  for (const Types& types : kTypes)
    for (bool ta : {false, true})
      for (bool tb : {false, true}) {
        add_products(registry, {types, ta, tb});
        add_gradients(registry, {types, ta, tb});
      }
  add_slabs(registry);
  add_benches(registry);
  add_golden(registry);
  add_rejections(registry);
}

}  // namespace weft::spec
