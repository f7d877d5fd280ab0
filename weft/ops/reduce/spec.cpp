#include <algorithm>
#include <cmath>

#include "weft/ops/reduce/reduce.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Setup {
  DType dtype, reduced;  // of x, of y
  Shape shape;
  int axis;
  Reduction kind;
  Layout layout = Layout::contiguous;
  Fill fill = normal();
};

// x as [outer, n, inner].
struct Extents {
  int64_t outer = 1, n = 0, inner = 1;
  Shape rest = {};
  int64_t at(int64_t o, int64_t i, int64_t j) const { return (o * n + i) * inner + j; }
};

Extents extents(const Setup& s) {
  Extents e{.n = s.shape[s.axis]};
  for (int i = 0; i < s.shape.rank(); ++i) {
    if (i == s.axis) continue;
    (i < s.axis ? e.outer : e.inner) *= s.shape[i];
    e.rest.push_back(s.shape[i]);
  }
  return e;
}

double larger(double a, double b) { return std::isnan(a) ? a : std::isnan(b) || b > a ? b : a; }

// Number of additions that a term passes through. Along a row: n / 64 in its lane's chain and six levels of tree, in
// segments of 65536 whose sums go through the same again. Across rows: its chunk's rows, then the chunks.
double additions(const Extents& e) {
  const double n = double(e.n);
  if (e.inner == 1) return std::min(n, 65536.0) / 64 + 8 + (e.n > 65536 ? n / 65536 / 64 + 8 : 0);
  const double chunk = std::max(16.0, std::ceil(n / 64));
  return chunk + std::ceil(n / chunk);
}

double reduced(const Array& x, const Extents& e, Reduction kind, int64_t o, int64_t j, double* magnitudes = nullptr) {
  double y = kind == Reduction::max ? -INFINITY : 0, sum = 0;
  for (int64_t i = 0; i < e.n; ++i) {
    const double v = x[e.at(o, i, j)], term = kind == Reduction::sum_squares ? v * v : v;
    y = kind == Reduction::max ? larger(y, term) : y + term;
    sum += std::abs(term);
  }
  if (magnitudes) *magnitudes = sum;
  return y;
}

Problem forward(const Setup& s) {
  const Extents e = extents(s);
  Problem p;
  p.input("x", s.dtype, s.shape, s.fill, s.layout).output("y", s.reduced, e.rest);
  p.launches<ReduceArgs>(reduce, [=](ReduceArgs& a) { a.axis = s.axis, a.kind = s.kind; });
  p.reference = [=](Truth& t) {
    for (int64_t o = 0; o < e.outer; ++o)
      for (int64_t j = 0; j < e.inner; ++j) {
        double scale = 0;
        const double y = reduced(t["x"], e, s.kind, o, j, &scale);
        // A maximum is one of the inputs: no rounding. A square is one more.
        const double roundings = s.kind == Reduction::max ? 0 : additions(e) + (s.kind == Reduction::sum_squares);
        t["y"].expect(o * e.inner + j, y, s.kind == Reduction::max ? 0 : scale, roundings);
      }
  };
  return p;
}

Problem backward(const Setup& s) {
  const Extents e = extents(s);
  const bool is_max = s.kind == Reduction::max;
  Problem p;
  p.input("x", s.dtype, s.shape, s.fill, s.layout).input("dy", s.reduced, e.rest, normal()).output("dx", s.dtype, s.shape, s.layout);
  if (is_max) p.input("y", s.reduced, e.rest, constant(0));
  const auto every = [=](auto body) {
    for (int64_t o = 0; o < e.outer; ++o)
      for (int64_t j = 0; j < e.inner; ++j) body(o, j, o * e.inner + j);
  };
  if (is_max)
    p.prepare = [=](Truth& t) { every([&](int64_t o, int64_t j, int64_t k) { t["y"].v[size_t(k)] = reduced(t["x"], e, s.kind, o, j); }); };
  p.launches<ReduceBackwardArgs>(reduce_backward, [=](ReduceBackwardArgs& a) {
    if (s.kind == Reduction::sum) a.x = {};
    a.axis = s.axis, a.kind = s.kind;
  });
  p.reference = [=](Truth& t) {
    every([&](int64_t o, int64_t j, int64_t k) {
      const double dy = t["dy"][k], y = is_max ? reduced(t["x"], e, s.kind, o, j) : 0;
      bool given = false;
      for (int64_t i = 0; i < e.n; ++i) {
        const int64_t at = e.at(o, i, j);
        const double x = t["x"][at];
        double dx = s.kind == Reduction::sum ? dy : 2 * x * dy;
        if (is_max) {
          const bool first = !given && (x == y || (std::isnan(x) && std::isnan(y)));
          dx = first ? dy : 0;
          given |= first;
        }
        t["dx"].expect(at, dx, dx, s.kind == Reduction::sum_squares ? 1 : 0);  // 2 x is exact
      }
    });
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    every([&](int64_t o, int64_t j, int64_t k) { loss += t["dy"][k] * reduced(t["x"], e, s.kind, o, j); });
    return loss;
  };
  // Values of bf16 tie, and a tie has no derivative: the maximum is checked by finite differences in f32 alone.
  if (!is_max || s.dtype == DType::f32)
    p.derivatives = {{"x", "dx"}};
  else
    p.loss = nullptr;
  return p;
}

const char* name_of(Reduction kind) { return kind == Reduction::sum ? "sum" : kind == Reduction::max ? "max" : "sum_squares"; }

void add_cases(Registry& registry, DType dtype, Reduction kind) {
  const std::string op = "reduce", forward_name = name_of(kind), backward_name = forward_name + "_backward";
  const auto add = [&](const Setup& s, const std::string& suffix = "") {
    const std::string name = join(s.shape, "/axis", s.axis, suffix);
    registry.add({op, forward_name, dtype, name, [=] { return forward(s); }});
    registry.add({op, backward_name, dtype, name, [=] { return backward(s); }});
  };
  const auto no_gradient = [&](const Setup& s, const std::string& suffix) {  // infinities and ties have no differences
    registry.add({op, forward_name, dtype, join(s.shape, "/axis", s.axis, suffix), [=] { return forward(s); }});
    registry.add({op, backward_name, dtype, join(s.shape, "/axis", s.axis, suffix), [=] {
                    Problem p = backward(s);
                    p.loss = nullptr;
                    return p;
                  }});
  };
  struct Form {
    Shape shape;
    int axis;
  };
  const Form forms[] = {{{1}, 0},
                        {{65}, 0},
                        {{1, 1}, 0},
                        {{4, 7}, 0},
                        {{4, 7}, 1},
                        {{3, 257}, 1},
                        {{257, 3}, 0},
                        {{2, 1025}, 1},
                        {{1025, 17}, 0},
                        {{33, 64}, 0},
                        {{131, 63}, 1},
                        {{3, 5, 9}, 0},
                        {{3, 5, 9}, 1},
                        {{3, 5, 9}, 2},
                        {{3, 67, 31}, 1},
                        {{2, 3, 4, 5}, 2},
                        {{2, 3, 1, 2, 5, 2}, 3},
                        {{4, 7, 1}, 1},
                        {{37, 1100}, 0},
                        {{0, 5}, 0},
                        {{0, 5}, 1},
                        {{5, 0}, 0},
                        {{5, 0}, 1},
                        {{3, 0, 4}, 1}};
  for (const Form& f : forms) add({dtype, DType::f32, f.shape, f.axis, kind});
  const Form padded[] = {{{4, 7}, 0}, {{4, 7}, 1}, {{3, 257}, 1}, {{70, 17}, 0}, {{3, 5, 9}, 1}, {{3, 5, 9}, 2}};
  for (const Form& f : padded) add({dtype, DType::f32, f.shape, f.axis, kind, Layout::padded_rows}, "/padded");
  if (dtype == DType::bf16) {
    add({dtype, dtype, {5, 33}, 0, kind}, "/bf16_out");
    add({dtype, dtype, {5, 33}, 1, kind}, "/bf16_out");
  }
  no_gradient({dtype, DType::f32, {200003}, 0, kind}, "");
  no_gradient({dtype, DType::f32, {3, 65537}, 1, kind}, "");
  for (int axis : {0, 1}) {
    no_gradient({dtype, DType::f32, {9, 70}, axis, kind, Layout::contiguous, sprinkle(normal(), 100, 37, NAN)}, "/nan");
    no_gradient({dtype, DType::f32, {9, 70}, axis, kind, Layout::contiguous, sprinkle(normal(), 100, 37, INFINITY)}, "/infinity");
    no_gradient({dtype, DType::f32, {9, 70}, axis, kind, Layout::contiguous, listed({3, 1, 3, 2, 3})}, "/ties");
    no_gradient({dtype, DType::f32, {9, 70}, axis, kind, Layout::contiguous, constant(-INFINITY)}, "/minus_infinity");
  }
}

}  // namespace

void add_specs_reduce(Registry& registry) {
  const std::string op = "reduce";
  for (DType dtype : {DType::f32, DType::bf16})
    for (Reduction kind : {Reduction::sum, Reduction::sum_squares, Reduction::max}) add_cases(registry, dtype, kind);
  for (int axis : {0, 1}) {
    const Setup s{DType::f32, DType::f32, {2048, 4096}, axis, Reduction::sum};
    registry.bench({op, "sum", DType::f32, join(s.shape, "/axis", axis), [=] { return forward(s); }});
    registry.bench({op, "sum_backward", DType::f32, join(s.shape, "/axis", axis), [=] { return backward(s); }});
  }
  registry.golden({op, "golden_sum", "reduce_sum.safetensors", [](const GoldenCase& g) {
                     Problem p = forward({DType::f32, DType::f32, g.shape("x"), int(g.integer("axis")), Reduction::sum});
                     return p.given("x", g.values("x")).golden("y", g.values("y"));
                   }});

  registry.rejects(op, "undefined", [](Device&) { reduce_sum(Tensor(), 0); });
  registry.rejects(op, "axis_too_high", [](Device& d) { reduce_sum(Tensor::empty(d, {2, 8}), 2); });
  registry.rejects(op, "axis_too_low", [](Device& d) { reduce_max(Tensor::empty(d, {2, 8}), -3); });
  registry.rejects(op, "scalar", [](Device& d) { reduce_sum(Tensor::empty(d, {}), 0); });
  registry.rejects(op, "integers", [](Device& d) { reduce_sum(Tensor::empty(d, {2, 8}, DType::i32), 0); });
  registry.rejects(op, "transposed", [](Device& d) { reduce_sum(Tensor::empty(d, {8, 2}).permute({1, 0}), 1); });
  registry.rejects(op, "leading_axes", [](Device& d) { reduce_sum(Tensor::empty(d, {3, 2, 8}).permute({1, 0, 2}), 2); });
  registry.rejects(op, "trailing_axes", [](Device& d) { reduce_sum(Tensor::empty(d, {3, 2, 8}).permute({0, 2, 1}), 0); });
  registry.rejects(op, "undefined_sum_all", [](Device&) { sum_all(Tensor()); });
  registry.rejects(op, "result_shape", [](Device& d) {
    const Tensor x = Tensor::empty(d, {2, 8}), y = Tensor::empty(d, {8});
    reduce(d.stream(), {.x = x.view(), .y = y.mut_view(), .axis = 1, .kind = Reduction::sum});
  });
  registry.rejects(op, "result_dtype", [](Device& d) {
    const Tensor x = Tensor::empty(d, {2, 8}), y = Tensor::empty(d, {2}, DType::bf16);
    reduce(d.stream(), {.x = x.view(), .y = y.mut_view(), .axis = 1, .kind = Reduction::sum});
  });
  registry.rejects(op, "max_backward_without_y", [](Device& d) {
    const Tensor x = Tensor::empty(d, {2, 8}), dy = Tensor::empty(d, {2}), dx = Tensor::empty(d, {2, 8});
    reduce_backward(d.stream(), {.x = x.view(), .y = {}, .dy = dy.view(), .dx = dx.mut_view(), .axis = 1, .kind = Reduction::max});
  });
}

}  // namespace weft::spec
