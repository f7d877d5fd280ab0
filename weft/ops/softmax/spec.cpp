#include <algorithm>
#include <cmath>

#include "weft/ops/softmax/softmax.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Setup {
  DType dtype;
  int64_t rows, columns;
  float scale = 1;
  Layout layout = Layout::contiguous;
  Fill fill = normal(2);
};

// A sum of n terms is a chain of n / 64 additions per lane, then six levels of tree.
double chain(int64_t n) { return double(n) / 64 + 8; }

// One row in float64, and the relative error allowed for each result.
struct RowTruth {
  std::vector<double> y, share;
};

// Sources of error, with u the unit roundoff of f32, v = scale x and d = v - m <= 0:
//   v errs by u |v| (and so does the maximum) unless scale is 1, the difference by u |d|: an absolute error in d is
//   the same relative error in e = exp(d). The exponential adds 3 u of its own (argument reduction, polynomial, sum).
//   So e_j errs by E_j = u (|d_j| + 3 + [scale != 1](|v_j| + |m|)), sum(e) by the mean of E under y plus its
//   additions, and 1 / sum and the product by one rounding each.
RowTruth row_truth(const Array& x, const Setup& s, int64_t r) {
  const int64_t C = s.columns;
  const double u = unit_roundoff(DType::f32);
  RowTruth t{std::vector<double>(size_t(C)), std::vector<double>(size_t(C))};
  double m = -INFINITY, sum = 0, mean_share = 0;
  bool nan = false;
  for (int64_t c = 0; c < C; ++c) {
    const double v = s.scale * x[r * C + c];
    nan |= std::isnan(v);
    m = std::max(m, v);
  }
  if (nan) m = NAN;
  if (m == -INFINITY) return t;  // defined as zeros
  for (int64_t c = 0; c < C; ++c) sum += std::exp(s.scale * x[r * C + c] - m);
  for (int64_t c = 0; c < C; ++c) {
    const double v = s.scale * x[r * C + c], d = v - m;
    t.y[size_t(c)] = std::exp(d) / sum;
    t.share[size_t(c)] = t.y[size_t(c)] == 0 ? 0 : u * (std::abs(d) + 3 + (s.scale == 1 ? 0 : std::abs(v) + std::abs(m)));
    mean_share += t.y[size_t(c)] * t.share[size_t(c)];
  }
  for (double& share : t.share) share += mean_share + u * (growth(chain(C)) + 2);
  return t;
}

// Below the normal range e and the product each err by half the smallest subnormal, and so does cutting d at -104.
constexpr double kSubnormal = 3 * 0x1p-150;

Problem forward(const Setup& s, bool in_place = false) {
  const int64_t R = s.rows, C = s.columns;
  Problem p;
  if (in_place)
    p.in_place("x", s.dtype, {R, C}, s.fill, s.layout);
  else
    p.input("x", s.dtype, {R, C}, s.fill, s.layout).output("y", s.dtype, {R, C}, s.layout);
  p.launches<SoftmaxArgs>(softmax, [=](SoftmaxArgs& a) {
    if (in_place) a.y = MutView{a.x};
    a.scale = s.scale;
  });
  p.reference = [=](Truth& t) {
    Array& y = t[in_place ? result("x") : "y"];
    for (int64_t r = 0; r < R; ++r) {
      const RowTruth row = row_truth(t["x"], s, r);
      for (int64_t c = 0; c < C; ++c) y.expect_within(r * C + c, row.y[size_t(c)], row.y[size_t(c)] * row.share[size_t(c)] + kSubnormal);
    }
  };
  return p;
}

// The op reads y; x is there so that the reference can be differentiated by it. The reference takes y in float64, the
// op gets it rounded to its dtype (u_d): with M = |scale| y_i (|dy_i| + sum_j y_j |dy_j|), that is u_d M for y_i and at
// most u_d M for the y_j of the sum. On top come the sum's additions, its products, a difference and two products.
Problem backward(const Setup& s, bool in_place = false) {
  const int64_t R = s.rows, C = s.columns;
  Problem p;
  p.input("x", s.dtype, {R, C}, s.fill).input("y", s.dtype, {R, C}, constant(0), s.layout);
  if (in_place)
    p.in_place("dy", s.dtype, {R, C}, normal(), s.layout);
  else
    p.input("dy", s.dtype, {R, C}, normal(), s.layout).output("dx", s.dtype, {R, C}, s.layout);
  p.prepare = [=](Truth& t) {
    for (int64_t r = 0; r < R; ++r) std::ranges::copy(row_truth(t["x"], s, r).y, t["y"].v.begin() + r * C);
  };
  p.launches<SoftmaxBackwardArgs>(softmax_backward, [=](SoftmaxBackwardArgs& a) {
    if (in_place) a.dx = MutView{a.dy};
    a.scale = s.scale;
  });
  p.reference = [=](Truth& t) {
    const Array dy = t["dy"];
    const double factor = unit_roundoff(DType::f32) * growth(chain(C) + 5) + 2 * unit_roundoff(s.dtype);
    for (int64_t r = 0; r < R; ++r) {
      const RowTruth row = row_truth(t["x"], s, r);
      double sum = 0, magnitudes = 0, all = 0;
      for (int64_t c = 0; c < C; ++c) {
        sum += row.y[size_t(c)] * dy[r * C + c];
        magnitudes += row.y[size_t(c)] * std::abs(dy[r * C + c]);
        all += std::abs(dy[r * C + c]);
      }
      for (int64_t c = 0; c < C; ++c) {
        const double y = row.y[size_t(c)], g = dy[r * C + c], scale = std::abs(s.scale);
        // A y below the normal range errs by kSubnormal whatever its size.
        const double error = factor * scale * y * (std::abs(g) + magnitudes) + kSubnormal * scale * (std::abs(g) + magnitudes + all + 2);
        t[in_place ? result("dy") : "dx"].expect_within(r * C + c, s.scale * y * (g - sum), error);
      }
    }
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t r = 0; r < R; ++r) {
      const RowTruth row = row_truth(t["x"], s, r);
      for (int64_t c = 0; c < C; ++c) loss += t["dy"][r * C + c] * row.y[size_t(c)];
    }
    return loss;
  };
  if (in_place)
    p.loss = nullptr;
  else
    p.derivatives = {{"x", "dx"}};
  return p;
}

void add_rejections(Registry& registry, const std::string& op) {
  registry.rejects(op, "undefined", [](Device&) { softmax(Tensor()); });
  registry.rejects(op, "scalar", [](Device& d) { softmax(Tensor::empty(d, {})); });
  registry.rejects(op, "integers", [](Device& d) { softmax(Tensor::empty(d, {2, 8}, DType::i32)); });
  registry.rejects(op, "transposed_rows", [](Device& d) { softmax(Tensor::empty(d, {8, 2}).permute({1, 0})); });
  registry.rejects(op, "leading_axes", [](Device& d) { softmax(Tensor::empty(d, {3, 2, 8}).permute({1, 0, 2})); });
  registry.rejects(op, "nan_scale", [](Device& d) { softmax(Tensor::empty(d, {2, 8}), NAN); });
  registry.rejects(op, "result_shape", [](Device& d) {
    const Tensor x = Tensor::empty(d, {2, 8}), y = Tensor::empty(d, {8, 2});
    softmax(d.stream(), {.x = x.view(), .y = y.mut_view()});
  });
  registry.rejects(op, "result_dtype", [](Device& d) {
    const Tensor x = Tensor::empty(d, {2, 8}), y = Tensor::empty(d, {2, 8}, DType::bf16);
    softmax(d.stream(), {.x = x.view(), .y = y.mut_view()});
  });
  registry.rejects(op, "in_place_strides", [](Device& d) {
    const Tensor whole = Tensor::empty(d, {4, 8}), x = whole.reshape({2, 16}).part(1, 0, 8), y = whole.part(0, 0, 2);
    softmax(d.stream(), {.x = x.view(), .y = y.mut_view()});
  });
  registry.rejects(op, "gradient_shape", [](Device& d) {
    const Tensor y = Tensor::empty(d, {2, 8}), dy = Tensor::empty(d, {2, 7}), dx = Tensor::empty(d, {2, 8});
    softmax_backward(d.stream(), {.y = y.view(), .dy = dy.view(), .dx = dx.mut_view()});
  });
}

}  // namespace

void add_specs_softmax(Registry& registry) {
  const std::string op = "softmax";
  for (DType dtype : {DType::f32, DType::bf16}) {
    const std::pair<int64_t, int64_t> sizes[] = {{1, 1},   {4, 7},    {3, 15},    {3, 16},   {3, 17},   {5, 63},    {5, 64}, {5, 65},
                                                 {3, 257}, {3, 1025}, {257, 384}, {2, 4099}, {2, 8192}, {2, 33008}, {0, 8},  {8, 0}};
    for (auto [rows, columns] : sizes)
      for (Layout layout : {Layout::contiguous, Layout::padded_rows}) {
        if (columns == 0 && layout == Layout::padded_rows) continue;  // no elements to lay out
        const Setup s{dtype, rows, columns, 1, layout}, scaled{dtype, rows, columns, 0.125f, layout, normal(16)};
        const std::string name = dims({rows, columns}) + (layout == Layout::padded_rows ? "/padded" : "");
        registry.add({op, "forward", dtype, name, [=] { return forward(s); }});
        registry.add({op, "backward", dtype, name, [=] { return backward(s); }});
        registry.add({op, "scaled", dtype, name, [=] { return forward(scaled); }});
        registry.add({op, "scaled_backward", dtype, name, [=] { return backward(scaled); }});
        registry.add({op, "in_place", dtype, name, [=] { return forward(s, true); }});
        registry.add({op, "in_place_backward", dtype, name, [=] { return backward(s, true); }});
      }
    const auto special = [&](const char* name, float scale, Fill fill) {
      const Setup s{dtype, 6, 35, scale, Layout::contiguous, fill};
      registry.add({op, "forward", dtype, name, [=] { return forward(s); }});
    };
    special("large_values", 1, normal(1000));
    special("negative_scale", -2.5f, normal(3));
    special("equal_values", 1, constant(3));
    special("some_masked", 1, sprinkle(normal(), 3, 1, -INFINITY));
    special("all_masked", 1, constant(-INFINITY));
    special("nan", 1, sprinkle(normal(), 71, 3, NAN));
    special("infinity", 1, sprinkle(normal(), 71, 3, INFINITY));
    special("nan_among_masked", 1, sprinkle(constant(-INFINITY), 71, 3, NAN));
    const Setup odd{dtype, 601, 577};
    registry.count({op, "forward", dtype, "601x577", [=] { return forward(odd); }});
    registry.count({op, "backward", dtype, "601x577", [=] { return backward(odd); }});
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{2048, 384}, {32768, 4096}}) {
      const Setup s{dtype, rows, columns};
      registry.bench({op, "forward", dtype, dims({rows, columns}), [=] { return forward(s); }});
      registry.bench({op, "backward", dtype, dims({rows, columns}), [=] { return backward(s); }});
    }
  }
  const auto of_case = [](const GoldenCase& g) { return Setup{DType::f32, g.integer("rows"), g.integer("cols")}; };
  registry.golden({op, "golden_forward", "softmax.safetensors",
                   [=](const GoldenCase& g) { return forward(of_case(g)).given("x", g.values("x")).golden("y", g.values("y")); }});
  registry.golden({op, "golden_backward", "softmax.safetensors", [=](const GoldenCase& g) {
                     Problem p = backward(of_case(g)).given("x", g.values("x")).given("dy", g.values("dy")).golden("dx", g.values("dx"));
                     // At |x| = 10000 the step of finite differences (1e-5 |x|) is too coarse for an exponential; the golden dx remains.
                     if (std::ranges::any_of(g.values("x"), [](double x) { return std::abs(x) > 100; })) p.loss = nullptr;
                     return p;
                   }});
  add_rejections(registry, op);
}

}  // namespace weft::spec
