#include <algorithm>
#include <cmath>

#include "weft/ops/layer_norm/layer_norm.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Setup {
  RowCase size;
  bool residual = false, bias = true;
  float eps = 1e-5f;
  Fill fill = normal();
  DType weight = size.dtype;
};

constexpr double u = 0x1p-24;  // f32's unit roundoff

// A sum of n terms is a chain of n / 64 additions per lane, then six levels of tree.
double chain(int64_t n) { return double(n) / 64 + 8; }

// A sum over rows: a chunk's rows in order, then the chunks in order.
double row_additions(int64_t rows) {
  const double chunk = std::max(16.0, std::ceil(double(rows) / 64));
  return chunk + std::ceil(double(rows) / chunk);
}

// The statistics of one row in float64.
struct RowTruth {
  double mean = 0, magnitude = 0, variance = 0, rstd = 0;  // magnitude: the mean of |h|
};

RowTruth row_truth(const Array& h, int64_t r, int64_t C, double eps) {
  RowTruth t;
  for (int64_t c = 0; c < C; ++c) t.mean += h[r * C + c] / double(C);
  for (int64_t c = 0; c < C; ++c) {
    t.magnitude += std::abs(h[r * C + c]) / double(C);
    t.variance += (h[r * C + c] - t.mean) * (h[r * C + c] - t.mean) / double(C);
  }
  t.rstd = 1 / std::sqrt(t.variance + eps);
  return t;
}

// Errors of the forward pass:
//   the mean by d = u (additions + a division) mean|h|, which is large against the stddev when the mean is;
//   the variance about the computed mean is the true one plus d^2 (deviations sum to zero, so the term linear in d
//   vanishes), and its terms err by a difference (twice, squared), a square, the additions and a division;
//   rstd by half the relative error of variance + eps, and an addition, a root and a division.
struct Errors {
  double mean, rstd;  // rstd's is relative
};
Errors errors_of(const RowTruth& t, int64_t C, double eps) {
  const double d = u * growth(chain(C) + 1) * t.magnitude;
  const double variance = d * d + u * growth(chain(C) + 4) * (t.variance + d * d);
  return {d, variance / (t.variance + eps) / 2 + 3 * u};
}

Problem forward(const Setup& s) {
  const auto [dtype, R, C, layout] = s.size;
  Problem p;
  p.input("x", dtype, {R, C}, s.fill, layout);
  if (s.residual) p.input("residual", dtype, {R, C}, normal(), layout).output("h", dtype, {R, C}, layout);
  p.input("w", s.weight, {C}, uniform(0.5, 1.5));
  if (s.bias) p.input("b", s.weight, {C}, normal());
  p.output("y", dtype, {R, C}, layout).output("mean", DType::f32, {R}).output("rstd", DType::f32, {R});
  p.launches<LayerNormArgs>(layer_norm, [=](LayerNormArgs& a) { a.eps = s.eps; });
  p.reference = [=](Truth& t) {
    Array h = t["x"];
    if (s.residual)
      for (int64_t i = 0; i < R * C; ++i) {
        t["h"].expect(i, h[i] + t["residual"][i], std::abs(h[i] + t["residual"][i]), 1);
        h.v[size_t(i)] = round_to(dtype, h[i] + t["residual"][i]);  // the op normalises the rounded h
      }
    for (int64_t r = 0; r < R; ++r) {
      const RowTruth row = row_truth(h, r, C, s.eps);
      const Errors e = errors_of(row, C, s.eps);
      t["mean"].expect_within(r, row.mean, e.mean);
      t["rstd"].expect_within(r, row.rstd, e.rstd * row.rstd);
      for (int64_t c = 0; c < C; ++c) {
        const double w = t["w"][c], zw = (h[r * C + c] - row.mean) * row.rstd * w, y = zw + (s.bias ? t["b"][c] : 0);
        // The mean's error shifts the row; z w has three roundings of its own (difference, two products), y the sum's.
        t["y"].expect_within(r * C + c, y,
                             std::abs(w) * row.rstd * (1 + e.rstd) * e.mean + std::abs(zw) * (e.rstd + 3 * u) + u * std::abs(y));
      }
    }
  };
  return p;
}

// The op reads mean and rstd rounded to f32. With z = (h - mean) rstd, g = dy w and averages over the row:
//   z errs by e_z = rstd u |mean| + 3 u |z| (rstd's rounding, the difference, the product);
//   avg(g) by u (additions + 2) avg|g|;  avg(g z) by u (additions + 3) avg|g z| + avg(|g| e_z);
//   dx then takes a product, a difference, a fused step, the product with rstd and rstd's rounding: 5 u of the
//   magnitudes added up, and one rounding where dh is added.
void backward_reference(const Setup& s, Truth& t) {
  const int64_t R = s.size.rows, C = s.size.columns;
  const Array &dy = t["dy"], &h = t["h"], &w = t["w"];
  std::vector<double> dw(size_t(C), 0), dw_error(size_t(C), 0), db(size_t(C), 0), db_scale(size_t(C), 0);
  for (int64_t r = 0; r < R; ++r) {
    const RowTruth row = row_truth(h, r, C, s.eps);
    const auto z_of = [&](int64_t c) { return (h[r * C + c] - row.mean) * row.rstd; };
    const auto z_error = [&](int64_t c) { return row.rstd * u * std::abs(row.mean) + 3 * u * std::abs(z_of(c)); };
    double g_mean = 0, gz_mean = 0, g_size = 0, gz_size = 0, gz_error = 0;
    for (int64_t c = 0; c < C; ++c) {
      const double g = dy[r * C + c] * w[c], z = z_of(c);
      g_mean += g / double(C);
      gz_mean += g * z / double(C);
      g_size += std::abs(g) / double(C);
      gz_size += std::abs(g * z) / double(C);
      gz_error += std::abs(g) * z_error(c) / double(C);
    }
    gz_error += u * growth(chain(C) + 3) * gz_size;
    for (int64_t c = 0; c < C; ++c) {
      const int64_t i = r * C + c;
      const double g = dy[i] * w[c], z = z_of(c), other = s.residual ? t["dh"][i] : 0;
      const double dx = row.rstd * (g - g_mean - z * gz_mean) + other;
      const double error = row.rstd * (5 * u * (std::abs(g) + g_size + std::abs(z) * gz_size) + u * growth(chain(C) + 2) * g_size +
                                       std::abs(z) * gz_error + z_error(c) * std::abs(gz_mean));
      t["dx"].expect_within(i, dx, error + (s.residual ? u * std::abs(dx) : 0));
      dw[size_t(c)] += dy[i] * z;
      dw_error[size_t(c)] += std::abs(dy[i]) * z_error(c) + u * growth(row_additions(R)) * std::abs(dy[i] * z);
      db[size_t(c)] += dy[i];
      db_scale[size_t(c)] += std::abs(dy[i]);
    }
  }
  for (int64_t c = 0; c < C; ++c) {
    t["dw"].expect_within(c, dw[size_t(c)], dw_error[size_t(c)]);
    if (s.bias) t["db"].expect(c, db[size_t(c)], db_scale[size_t(c)], row_additions(R));
  }
}

Problem backward(const Setup& s) {
  const auto [dtype, R, C, layout] = s.size;
  Problem p;
  p.input("dy", dtype, {R, C}, normal(), layout).input("h", dtype, {R, C}, s.fill, layout);
  if (s.residual) p.input("dh", dtype, {R, C}, normal(), layout);
  p.input("w", s.weight, {C}, uniform(0.5, 1.5)).input("b", s.weight, {C}, normal());  // b: for the loss alone
  p.input("mean", DType::f32, {R}, constant(0)).input("rstd", DType::f32, {R}, constant(0));
  p.output("dx", dtype, {R, C}, layout).output("dw", DType::f32, {C});
  if (s.bias) p.output("db", DType::f32, {C});
  p.prepare = [=](Truth& t) {
    for (int64_t r = 0; r < R; ++r) {
      const RowTruth row = row_truth(t["h"], r, C, s.eps);
      t["mean"].v[size_t(r)] = row.mean;
      t["rstd"].v[size_t(r)] = row.rstd;
    }
  };
  p.launches<LayerNormBackwardArgs>(layer_norm_backward);
  p.reference = [=](Truth& t) { backward_reference(s, t); };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t r = 0; r < R; ++r) {
      const RowTruth row = row_truth(t["h"], r, C, s.eps);
      for (int64_t c = 0; c < C; ++c) {
        const int64_t i = r * C + c;
        loss += t["dy"][i] * ((t["h"][i] - row.mean) * row.rstd * t["w"][c] + t["b"][c]) + (s.residual ? t["dh"][i] * t["h"][i] : 0);
      }
    }
    return loss;
  };
  p.derivatives = {{"h", "dx"}, {"w", "dw"}};
  if (s.bias) p.derivatives.push_back({"b", "db"});
  return p;
}

void add_rejections(Registry& registry, const std::string& op) {
  const auto norm = [](const Tensor& x, const Tensor& w, const Tensor& b) { layer_norm(x, w, b, 1e-5f); };
  registry.rejects(op, "weight_rank", [=](Device& d) { norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {1, 8}), Tensor::empty(d, {8})); });
  registry.rejects(op, "weight_length", [=](Device& d) { norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {7}), Tensor::empty(d, {8})); });
  registry.rejects(op, "bias_length", [=](Device& d) { norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {8}), Tensor::empty(d, {7})); });
  registry.rejects(op, "bias_dtype",
                   [=](Device& d) { norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {8}), Tensor::empty(d, {8}, DType::bf16)); });
  registry.rejects(op, "weight_dtype", [=](Device& d) { norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {8}, DType::bf16), Tensor()); });
  registry.rejects(op, "integer_input", [=](Device& d) { norm(Tensor::empty(d, {2, 8}, DType::i32), Tensor::empty(d, {8}), Tensor()); });
  registry.rejects(op, "undefined_weight", [=](Device& d) { norm(Tensor::empty(d, {2, 8}), Tensor(), Tensor()); });
  registry.rejects(op, "undefined_input", [=](Device& d) { norm(Tensor(), Tensor::empty(d, {8}), Tensor()); });
  registry.rejects(op, "strided_weight",
                   [=](Device& d) { norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {8, 2}).part(1, 0, 1).permute({1, 0}), Tensor()); });
  registry.rejects(op, "transposed_rows",
                   [=](Device& d) { norm(Tensor::empty(d, {8, 2}).permute({1, 0}), Tensor::empty(d, {8}), Tensor()); });
  registry.rejects(op, "negative_eps", [](Device& d) { layer_norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {8}), Tensor(), -1.0f); });
  registry.rejects(op, "residual_shape", [](Device& d) {
    layer_norm_residual(Tensor::empty(d, {2, 8}), Tensor::empty(d, {3, 8}), Tensor::empty(d, {8}), Tensor(), 1e-5f);
  });
}

}  // namespace

void add_specs_layer_norm(Registry& registry) {
  const std::string op = "layer_norm";
  const RowSizes sizes = {{1, 1},    {4, 7},    {3, 63},   {3, 65},   {3, 257},   {3, 1025},
                          {257, 64}, {131, 17}, {2, 4099}, {2, 8192}, {2, 33008}, {0, 8}};
  const RowSizes counted = {{2048, 384}, {1201, 387}}, timed = {{2048, 384}, {32768, 4096}};
  for (bool residual : {false, true}) {
    // One value has no variance: there eps alone scales its gradient, and a larger one keeps differences meaningful.
    const auto setup = [=](const RowCase& c) { return Setup{.size = c, .residual = residual, .eps = c.columns == 1 ? 1.0f : 1e-5f}; };
    const auto make_forward = [=](const RowCase& c) { return forward(setup(c)); };
    const auto make_backward = [=](const RowCase& c) { return backward(setup(c)); };
    const std::string name = residual ? "residual" : "forward", backward_name = residual ? "residual_backward" : "backward";
    registry.add_rows(op, name, sizes, make_forward);
    registry.add_rows(op, backward_name, sizes, make_backward);
    registry.count_rows(op, name, counted, make_forward);
    registry.count_rows(op, backward_name, counted, make_backward);
    const RowCase gpt2{DType::bf16, 65536, 768};
    registry.bench_gpu({op, name, gpt2.dtype, "65536x768", [=] { return make_forward(gpt2); }});
    registry.bench_gpu({op, backward_name, gpt2.dtype, "65536x768", [=] { return make_backward(gpt2); }});
    if (residual) continue;
    registry.bench_rows(op, name, timed, make_forward);
    registry.bench_rows(op, backward_name, timed, make_backward);
  }
  const Fill far = [](PhiloxStream& random, int64_t) { return 1000 + random.normal(); };
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Setup no_bias{.size = {dtype, 5, 33}, .bias = false};
    registry.add({op, "forward", dtype, "no_bias", [=] { return forward(no_bias); }});
    registry.add({op, "backward", dtype, "no_bias", [=] { return backward(no_bias); }});
    const auto special = [&](const char* name, int64_t columns, float eps, Fill fill) {
      registry.add({op, "forward", dtype, name, [=] { return forward({.size = {dtype, 5, columns}, .eps = eps, .fill = fill}); }});
    };
    special("large_mean", 769, 1e-5f, far);
    registry.add({op, "backward", dtype, "large_mean", [=] {
                    Problem p = backward({.size = {dtype, 5, 769}, .fill = far});
                    p.loss = nullptr;  // finite differences step by 1e-5 of the value: too coarse here
                    return p;
                  }});
    special("tiny_values", 33, 1e-2f, normal(0.05));  // a variance near eps is where a lost eps shows
    special("equal_values", 33, 1e-5f, constant(3));
    special("nan", 33, 1e-5f, sprinkle(normal(), 66, 3, NAN));
    special("infinity", 33, 1e-5f, sprinkle(normal(), 66, 3, INFINITY));
  }
  const Setup mixed{.size = {DType::bf16, 9, 65}, .weight = DType::f32};
  registry.add({op, "forward", DType::bf16, "f32_weight", [=] { return forward(mixed); }});
  registry.add({op, "backward", DType::bf16, "f32_weight", [=] { return backward(mixed); }});

  const auto of_case = [](const GoldenCase& g) {
    return Setup{.size = {DType::f32, g.integer("rows"), g.integer("dim")}, .eps = float(g.number("eps"))};
  };
  registry.golden({op, "golden_forward", "layer_norm.safetensors", [=](const GoldenCase& g) {
                     Problem p = forward(of_case(g)).given("x", g.values("x")).given("w", g.values("w")).given("b", g.values("b"));
                     return p.golden("y", g.values("y"));
                   }});
  registry.golden({op, "golden_backward", "layer_norm.safetensors", [=](const GoldenCase& g) {
                     Problem p = backward(of_case(g)).given("h", g.values("x")).given("dy", g.values("dy"));
                     for (const char* name : {"w", "b"}) p.given(name, g.values(name));
                     for (const char* name : {"dx", "dw", "db"}) p.golden(name, g.values(name));
                     return p;
                   }});
  add_rejections(registry, op);
}

}  // namespace weft::spec
