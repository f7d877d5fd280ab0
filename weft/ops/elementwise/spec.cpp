#include <bit>
#include <cmath>

#include "weft/expr/expr.h"
#include "weft/ops/elementwise/problems.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

using expr::Graph;
using expr::Op;

// ---- expressions

Graph of_op(Op op) {
  Graph g;
  g.inputs = expr::operands(op);
  for (int i = 0; i < g.inputs; ++i) g.add({.op = Op::input, .index = i});
  g.outputs = {g.add({.op = op, .a = 0, .b = g.inputs > 1 ? 1 : -1, .c = g.inputs > 2 ? 2 : -1})};
  return g;
}

Graph swiglu() {
  return expr::trace([](Expr g, Expr u) { return silu(g) * u; });
}
Graph gelu() {
  return expr::trace([](Expr v) { return gelu_tanh(v); });
}
Graph axpy() {
  return expr::trace([](Expr a, Expr b) { return a * b + a; });
}
Graph thirty_nodes() {
  return expr::trace([](Expr a, Expr b) {
    const Expr t1 = a * b + a, t2 = exp2(t1 * 0.25f), t3 = abs(a) + 1.0f, t4 = log2(t3), t5 = sqrt(t3 + b * b), t6 = sin(t1);
    const Expr t9 = select(a < b, t2, t4) + t6 * t5, t11 = min(max(t9, -10.0f), 10.0f), t14 = (t11 * 0.5f - t4) / t5;
    const Expr t17 = t14 / (exp2(-t14) + 1.0f), t18 = select(0.0f < t17, t17, t17 * 0.1f);
    return t18 * b + t6;
  });
}
Graph two_outputs() {
  return expr::trace([](Expr a, Expr b, Param p) { return std::pair{a * b + p, a - exp(b)}; });
}
Graph swap_and_scale() {
  return expr::trace([](Expr a, Expr b) { return std::pair{b, 2.0f * a}; });
}

// Floats of every size and sign: random bits but for exponents that would be infinity or NaN.
Fill any_float() {
  return [](PhiloxStream& random, int64_t) {
    const auto bits = uint32_t(random.below(int64_t(1) << 32));
    return double(std::bit_cast<float>((bits >> 23 & 255) == 255 ? bits ^ 0x40000000u : bits));
  };
}
Fill edges() {
  return listed({0.0,      -0.0,           1,        -1,          0.5,         2.5,  -2.5,  3,     -3,
                 0x1p-149, -0x1p-126,      0x1p-24,  1 - 0x1p-24, 1 + 0x1p-23, 88.5, -88.5, 1e-30, 1e30,
                 -1e30,    0x1.fffffep127, INFINITY, -INFINITY,   NAN});
}

void add_primitives(Registry& registry, const std::string& op) {
  for (int i = int(Op::neg); i < expr::kOps; ++i) {
    const Op o = Op(i);
    const std::string name = expr::name(o);
    const size_t n = size_t(expr::operands(o));
    const auto make = [=](Fill fill, int64_t count, bool second_differs) {
      std::vector<Wire> inputs(n, Wire{DType::f32, {count}, fill});
      // Other strides through the list of edges, so that all pairs meet.
      if (second_differs)
        for (size_t k = 1; k < n; ++k)
          inputs[k].fill = [fill, k](PhiloxStream& random, int64_t at) { return fill(random, k == 1 ? at / 23 : at / 529); };
      return launch_of(of_op(o), inputs, {DType::f32, {count}});
    };
    registry.add({op, "function", DType::f32, name + "/any", [=] { return make(any_float(), 16384 + 7, false); }, ulps(o)});
    registry.add({op, "function", DType::f32, name + "/usual", [=] { return make(normal(4), 4096, false); }, ulps(o)});
    registry.add({op, "function", DType::f32, name + "/edges",
                  [=] {
                    return make(edges(), n == 1 ? 23 : n == 2 ? 529 : 12167, true);
                  },
                  ulps(o)});
    if (o == Op::floor || o == Op::round || o == Op::less || o == Op::less_equal || o == Op::equal) continue;  // their gradient is 0
    // Inside every function's domain and away from kinks, where finite differences mean something.
    registry.add({op, "function_backward", DType::f32, name, [=] {
                    std::vector<Wire> inputs;
                    for (size_t k = 0; k < n; ++k) inputs.push_back({DType::f32, {97}, uniform(0.3 + 2 * double(k), 1.3 + 2 * double(k))});
                    return derivative_of(of_op(o), inputs, {DType::f32, {97}});
                  }});
  }
}

void add_compositions(Registry& registry, const std::string& op) {
  const std::pair<const char*, Graph> functions[] = {
      {"swiglu", swiglu()},
      {"gelu_tanh", gelu()},
      {"gelu_erf", expr::trace([](Expr v) { return gelu_erf(v); })},
      {"softplus", expr::trace([](Expr v) { return softplus(v); })},
      {"multiply_add", axpy()},
      {"thirty_nodes", thirty_nodes()},
  };
  for (const auto& [name, graph] : functions) {
    const std::vector<Wire> one(size_t(graph.inputs));
    const auto wires = [n = graph.inputs](DType dtype, Shape shape, Layout layout, Fill fill = normal()) {
      return std::vector<Wire>(size_t(n), Wire{dtype, shape, fill, layout});
    };
    for (DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (int64_t n : {0, 1, 15, 16, 17, 63, 64, 65, 1000, 4097}) {
        const Shape shape{n};
        registry.add({op, name, dtype, dims({n}),
                      [=, graph = graph] { return launch_of(graph, wires(dtype, shape, Layout::contiguous), {dtype, shape}); }});
        if (n == 0 || n == 65 || n == 1000)
          registry.add({op, name + std::string("_backward"), dtype, dims({n}),
                        [=, graph = graph] { return derivative_of(graph, wires(dtype, shape, Layout::contiguous), {dtype, shape}); }});
      }
    for (Shape shape : {Shape{3, 67}, Shape{5, 128}, Shape{2, 3, 5}}) {
      registry.add({op, name, DType::f32, join(shape, "/padded"), [=, graph = graph] {
                      return launch_of(graph, wires(DType::f32, shape, Layout::padded_rows), {DType::f32, shape, {}, Layout::padded_rows});
                    }});
    }
    // Several tasks, so that every thread has some.
    registry.add({op, name, DType::f32, "100003", [=, graph = graph] {
                    return launch_of(graph, wires(DType::f32, {100003}, Layout::contiguous), {DType::f32, {100003}});
                  }});
    for (double special : {double(NAN), double(INFINITY), -double(INFINITY)})
      registry.add({op, name, DType::f32, join("special/", special), [=, graph = graph] {
                      return launch_of(graph, wires(DType::f32, {130}, Layout::contiguous, sprinkle(normal(), 7, 3, special)),
                                       {DType::f32, {130}});
                    }});
  }
}

void add_broadcasts(Registry& registry, const std::string& op) {
  const Graph scale_shift = expr::trace([](Expr v, Expr w, Expr b) { return v * w + exp(b); });
  struct Pattern {
    const char* name;
    Shape full, second, third;
  };
  const Pattern patterns[] = {{"row_and_column", {7, 65}, {65}, {7, 1}},
                              {"column_and_row", {33, 16}, {33, 1}, {1, 16}},
                              {"scalars", {5, 130}, {}, {1}},
                              {"rows_of_batches", {3, 5, 70}, {5, 70}, {3, 1, 1}},
                              {"middle_axis", {3, 5, 70}, {3, 1, 70}, {5, 1}},
                              {"four_axes", {2, 3, 4, 17}, {3, 1, 17}, {2, 1, 4, 1}},
                              {"one_element", {1, 1}, {1}, {}},
                              {"long_rows", {3, 40000}, {40000}, {3, 1}}};
  for (const Pattern& s : patterns)
    for (DType dtype : {DType::f32, DType::bf16})
      registry.add({op, "broadcast", dtype, s.name, [=] {
                      return launch_of(scale_shift, {{dtype, s.full}, {DType::f32, s.second}, {dtype, s.third, uniform(-1, 1)}},
                                       {dtype, s.full});
                    }});
  for (DType dtype : {DType::f32, DType::bf16})
    for (const Pattern& s :
         {Pattern{"row_and_column/601x577", {601, 577}, {577}, {601, 1}}, Pattern{"column_and_row/2048x48", {2048, 48}, {2048, 1}, {1, 48}},
          Pattern{"middle_axis/13x37x91", {13, 37, 91}, {13, 1, 91}, {37, 1}}, Pattern{"scalars/100003", {100003}, {}, {1}}}) {
      registry.count({op, "broadcast", dtype, s.name, [=] {
                        return launch_of(scale_shift, {{dtype, s.full}, {DType::f32, s.second}, {dtype, s.third, uniform(-1, 1)}},
                                         {dtype, s.full});
                      }});
      registry.count({op, "broadcast_backward", dtype, s.name, [=] {
                        return derivative_of(scale_shift, {{dtype, s.full}, {DType::f32, s.second}, {dtype, s.third, uniform(-1, 1)}},
                                             {dtype, s.full});
                      }});
    }
  registry.add({op, "broadcast_backward", DType::f32, "row_and_column", [=] {
                  return derivative_of(scale_shift, {{DType::f32, {7, 65}}, {DType::f32, {65}}, {DType::f32, {7, 1}}},
                                       {DType::f32, {7, 65}});
                }});
}

void add_layouts(Registry& registry, const std::string& op) {
  for (DType a : {DType::f32, DType::bf16, DType::f16})
    for (DType b : {DType::f32, DType::bf16, DType::f16})
      for (DType to : {DType::f32, DType::bf16, DType::f16})
        registry.add(
            {op, "mixed", to, join(a, "_", b), [=] { return launch_of(thirty_nodes(), {{a, {3, 75}}, {b, {3, 75}}}, {to, {3, 75}}); }});
  for (int64_t n : {5, 64, 4097}) {
    registry.add({op, "two_outputs", DType::f32, dims({n}),
                  [=] { return launch_of(two_outputs(), {{DType::f32, {n}}, {DType::f32, {n}}}, {DType::f32, {n}}, {0.75f}); }});
    registry.add({op, "two_outputs_backward", DType::f32, dims({n}),
                  [=] { return derivative_of(two_outputs(), {{DType::f32, {n}}, {DType::f32, {n}}}, {DType::f32, {n}}, {0.75f}); }});
    registry.add({op, "in_place", DType::f32, dims({n}),
                  [=] { return launch_of(thirty_nodes(), {{DType::f32, {n}}, {DType::f32, {n}}}, {DType::f32, {n}}, {}, 1); }});
    // Each output overwrites the other's input: nothing may be stored before all is read.
    for (DType dtype : {DType::f32, DType::bf16})
      registry.add({op, "in_place_both", dtype, dims({n}),
                    [=] { return launch_of(swap_and_scale(), {{dtype, {n}}, {dtype, {n}}}, {dtype, {n}}, {}, 2); }});
    registry.add({op, "in_place_two_outputs", DType::f32, dims({n}),
                  [=] { return launch_of(two_outputs(), {{DType::f32, {n}}, {DType::f32, {n}}}, {DType::f32, {n}}, {2}, 2); }});
  }
  // More live values than registers or a few slots: a sum of products of all pairs.
  const Graph many = expr::trace([](Expr a, Expr b) {
    std::vector<Expr> powers{a, b};
    for (int i = 2; i < 24; ++i) powers.push_back(powers[size_t(i - 1)] * 0.5f + powers[size_t(i - 2)] * (0.3f + 0.01f * float(i)));
    Expr total = 0.0f;
    for (size_t i = 0; i < powers.size(); ++i) total += sin(powers[i]) * powers[powers.size() - 1 - i];
    return total;
  });
  registry.add({op, "many_live_values", DType::f32, "200",
                [=] { return launch_of(many, {{DType::f32, {200}}, {DType::f32, {200}}}, {DType::f32, {200}}); }});
  registry.add({op, "many_live_values_backward", DType::f32, "200",
                [=] { return derivative_of(many, {{DType::f32, {200}}, {DType::f32, {200}}}, {DType::f32, {200}}); }});
}

// From a lambda to a kernel that is ready to launch, a thousand times: milliseconds are microseconds for one.
Problem ready(bool cached) {
  Problem p;
  p.run = [cached](Stream& stream, const Bound&) {
    const ElementwiseKernel key{
        .dialect = stream.device().dialect(), .sources = {expr::Source::f32, expr::Source::f32}, .outputs = {DType::f32}};
    for (int i = 0; i < 1000; ++i) {
      const Graph traced = thirty_nodes();
      if (cached)
        elementwise_function(traced)->compiled(key);
      else
        ElementwiseFunction(traced).compiled(key);
    }
  };
  p.cost = [](const Bound&) { return Cost{}; };
  return p;
}

// sqrt, tanh, sin, exp, log1p and select of one element: arithmetic rather than memory.
Graph deep() {
  return expr::trace([](Expr x) {
    const Expr s = sqrt(abs(x)), t = tanh(x) * sin(s) + exp(-s);
    return select(x > 0, log1p(t * t), t);
  });
}

void add_benches(Registry& registry, const std::string& op) {
  constexpr int64_t kLarge = int64_t(1) << 28;
  registry.bench_gpu({op, "swiglu", DType::bf16, dims({kLarge}),
                      [] { return launch_of(swiglu(), {{DType::bf16, {kLarge}}, {DType::bf16, {kLarge}}}, {DType::bf16, {kLarge}}); }});
  registry.bench_gpu(
      {op, "deep", DType::f32, dims({kLarge}), [] { return launch_of(deep(), {{DType::f32, {kLarge}}}, {DType::f32, {kLarge}}); }});
  registry.bench({op, "ready", DType::f32, "1000 times, first", [] { return ready(false); }});
  registry.bench({op, "ready", DType::f32, "1000 times, cached", [] { return ready(true); }});
  const std::pair<const char*, Graph> functions[] = {
      {"multiply_add", axpy()}, {"swiglu", swiglu()}, {"gelu_tanh", gelu()}, {"thirty_nodes", thirty_nodes()}};
  for (int64_t n : {100'000, 10'000'000}) {
    const std::string name = dims({n});
    for (const auto& [label, graph] : functions)
      for (DType dtype : {DType::f32, DType::bf16})
        registry.bench({op, label, dtype, name, [=, graph = graph] {
                          return launch_of(graph, std::vector<Wire>(size_t(graph.inputs), Wire{dtype, {n}}), {dtype, {n}});
                        }});
    registry.bench({op, "swiglu_backward", DType::f32, name,
                    [=] { return derivative_of(swiglu(), {{DType::f32, {n}}, {DType::f32, {n}}}, {DType::f32, {n}}); }});
  }
}

// The golden values of tanh-GELU come from x (1 + tanh u) / 2 in float64, where 1 + tanh u cancels for negative x: they
// are themselves off by what 2^-52 becomes on the way to y, and to dx = dy ((1 + tanh u) / 2 + x u' (1 - tanh^2 u) / 2).
Problem with_golden_cancellation(Problem p, bool backward) {
  p.reference = [reference = p.reference, backward](Truth& t) {
    reference(t);
    for (int64_t i = 0; i < t["x0"].size(); ++i) {
      const double v = t["x0"][i], slope = 0.8 * (1 + 0.135 * v * v);
      t["y0"].bound[size_t(i)] += 0x1p-52 * (backward ? std::abs(t["x1"][i]) * (1 + std::abs(v) * slope) : std::abs(v));
    }
  };
  return p;
}

void add_golden(Registry& registry, const std::string& op) {
  struct Source {
    const char* file;
    Graph (*graph)();
    std::vector<const char*> inputs, gradients;
  };
  for (const Source& s :
       {Source{"gelu_tanh.safetensors", gelu, {"x"}, {"dx"}}, Source{"swiglu.safetensors", swiglu, {"gate", "up"}, {"dgate", "dup"}}}) {
    const auto give = [s](const GoldenCase& g, Problem p) {
      for (size_t i = 0; i < s.inputs.size(); ++i) p.given(x(i), g.values(s.inputs[i]));
      return p;
    };
    const std::string label = std::string(s.file).substr(0, std::string(s.file).find('.'));
    const bool cancels = s.graph == gelu;
    registry.golden({op, "golden_" + label, s.file, [=](const GoldenCase& g) {
                       const Shape shape = g.shape("y");
                       Problem p =
                           give(g, launch_of(s.graph(), std::vector<Wire>(s.inputs.size(), Wire{DType::f32, shape}), {DType::f32, shape}));
                       p.golden(y(0), g.values("y"));
                       return cancels ? with_golden_cancellation(p, false) : p;
                     }});
    registry.golden({op, "golden_" + label + "_backward", s.file, [=](const GoldenCase& g) {
                       const Shape shape = g.shape("y");
                       Problem p = give(
                           g, derivative_of(s.graph(), std::vector<Wire>(s.inputs.size(), Wire{DType::f32, shape}), {DType::f32, shape}));
                       p.given(x(s.inputs.size()), g.values("dy"));
                       for (size_t i = 0; i < s.gradients.size(); ++i) p.golden(y(i), g.values(s.gradients[i]));
                       return cancels ? with_golden_cancellation(p, true) : p;
                     }});
  }
}

void add_rejections(Registry& registry, const std::string& op) {
  static const auto f = fuse([](Expr a, Expr b) { return a * b; });
  const auto rejects = [&](const char* name, std::function<void(Device&)> attempt) { registry.rejects(op, name, std::move(attempt)); };
  rejects("shapes", [](Device& d) { f(Tensor::empty(d, {2, 8}), Tensor::empty(d, {7})); });
  rejects("column_length", [](Device& d) { f(Tensor::empty(d, {2, 8}), Tensor::empty(d, {3, 1})); });
  rejects("integers", [](Device& d) { f(Tensor::empty(d, {8}, DType::i32), Tensor::empty(d, {8})); });
  rejects("integer_output", [](Device& d) { f.as(DType::i32)(Tensor::empty(d, {8}), Tensor::empty(d, {8})); });
  rejects("undefined_input", [](Device& d) { f(Tensor::empty(d, {8}), Tensor()); });
  rejects("undefined_output", [](Device& d) { f.into(Tensor(), Tensor::empty(d, {8}), Tensor::empty(d, {8})); });
  rejects("output_shape", [](Device& d) { f.into(Tensor::empty(d, {9}), Tensor::empty(d, {8}), Tensor::empty(d, {8})); });
  rejects("transposed_output",
          [](Device& d) { f.into(Tensor::empty(d, {8, 2}).permute({1, 0}), Tensor::empty(d, {2, 8}), Tensor::empty(d, {8})); });
  rejects("partial_overlap", [](Device& d) {
    const Tensor t = Tensor::empty(d, {9});
    f.into(t.part(0, 0, 8), t.part(0, 1, 9), Tensor::empty(d, {8}));
  });
  rejects("output_on_broadcast_input", [](Device& d) {
    const Tensor t = Tensor::empty(d, {2, 8});
    f.into(t, Tensor::empty(d, {2, 8}), t.part(0, 0, 1));
  });
  rejects("outputs_overlap", [](Device& d) {
    static const auto two = fuse([](Expr a) { return std::array{a + 1.0f, a * 2.0f}; });
    const Tensor t = Tensor::empty(d, {8});
    two.into({t, t}, Tensor::empty(d, {8}));
  });
  rejects("writes_over_a_gradient", [](Device& d) {
    Tensor w = Tensor::empty(d, {8});
    w.set_requires_grad();
    f.into(w, w, Tensor::empty(d, {8}));
  });
  rejects("no_inputs", [](Device&) { fuse([](Param p) { return p * 2.0f; }); });
}

}  // namespace

void add_specs_elementwise(Registry& registry) {
  const std::string op = "elementwise";
  add_primitives(registry, op);
  add_compositions(registry, op);
  add_broadcasts(registry, op);
  add_layouts(registry, op);
  add_golden(registry, op);
  add_functions(registry, op);
  add_benches(registry, op);
  add_rejections(registry, op);
}

}  // namespace weft::spec
