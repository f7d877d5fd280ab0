#include <cmath>

#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Size {
  int64_t rows, columns;
};

// h, rstd and the sums of one row, in float64.
struct RowTruth {
  double mean_square = 0, rstd = 0;
};

RowTruth row_truth(const Array& h, int64_t r, int64_t C, double eps) {
  RowTruth t;
  for (int64_t c = 0; c < C; ++c) t.mean_square += h[r * C + c] * h[r * C + c] / double(C);
  t.rstd = 1 / std::sqrt(t.mean_square + eps);
  return t;
}

// A sum of n terms is a chain of n / 64 additions per lane, then six levels of tree.
double chain(int64_t n) { return double(n) / 64 + 8; }

// rstd errs by half the relative error of the mean square, plus a square root and a division.
double rstd_roundings(int64_t C) { return chain(C) / 2 + 3; }

Problem forward(DType dtype, DType weight, Size size, double eps, Layout layout, bool residual, Fill fill = normal()) {
  const auto [R, C] = size;
  Problem p;
  p.input("x", dtype, {R, C}, fill, layout);
  if (residual) p.input("residual", dtype, {R, C}, normal(), layout).output("h", dtype, {R, C}, layout);
  p.input("w", weight, {C}, uniform(0.5, 1.5)).output("y", dtype, {R, C}, layout).output("rstd", DType::f32, {R});
  p.launches<RmsNormArgs>(rms_norm, [=](RmsNormArgs& a) { a.eps = float(eps); });
  p.reference = [=](Truth& t) {
    Array h = t["x"];
    if (residual)
      for (int64_t i = 0; i < R * C; ++i) {
        t["h"].expect(i, h[i] + t["residual"][i], std::abs(h[i] + t["residual"][i]), 1);
        h.v[size_t(i)] = round_to(dtype, h[i] + t["residual"][i]);  // the op normalises the rounded h
      }
    for (int64_t r = 0; r < R; ++r) {
      const double rstd = row_truth(h, r, C, float(eps)).rstd;
      t["rstd"].expect(r, rstd, rstd, rstd_roundings(C));
      for (int64_t c = 0; c < C; ++c) {
        const double y = h[r * C + c] * rstd * t["w"][c];
        t["y"].expect(r * C + c, y, y, rstd_roundings(C) + 2);
      }
    }
  };
  return p;
}

Problem backward(DType dtype, DType weight, Size size, double eps, Layout layout, bool residual) {
  const auto [R, C] = size;
  Problem p;
  p.input("dy", dtype, {R, C}, normal(), layout).input("h", dtype, {R, C}, normal(), layout);
  if (residual) p.input("dh", dtype, {R, C}, normal(), layout);
  p.input("w", weight, {C}, uniform(0.5, 1.5)).input("rstd", DType::f32, {R}, constant(0));
  p.output("dx", dtype, {R, C}, layout).output("dw", DType::f32, {C});
  p.prepare = [=](Truth& t) {
    for (int64_t r = 0; r < R; ++r) t["rstd"].v[size_t(r)] = row_truth(t["h"], r, C, eps).rstd;
  };
  p.launches<RmsNormBackwardArgs>(rms_norm_backward);
  p.reference = [=](Truth& t) {
    const Array &dy = t["dy"], &h = t["h"], &w = t["w"];
    std::vector<double> dw(size_t(C), 0), dw_scale(size_t(C), 0);
    for (int64_t r = 0; r < R; ++r) {
      const double rstd = row_truth(h, r, C, eps).rstd;
      double s = 0, s_scale = 0;
      for (int64_t c = 0; c < C; ++c) {
        const double term = dy[r * C + c] * w[c] * h[r * C + c];
        s += term;
        s_scale += std::abs(term);
      }
      for (int64_t c = 0; c < C; ++c) {
        const int64_t i = r * C + c;
        const double k = h[i] * rstd * rstd / double(C), other = residual ? t["dh"][i] : 0;
        const double dx = rstd * (dy[i] * w[c] - k * s) + other;
        const double scale = rstd * (std::abs(dy[i] * w[c]) + std::abs(k) * s_scale) + std::abs(other);
        t["dx"].expect(i, dx, scale, chain(C) + 8);
        dw[size_t(c)] += dy[i] * h[i] * rstd;
        dw_scale[size_t(c)] += std::abs(dy[i] * h[i] * rstd);
      }
    }
    for (int64_t c = 0; c < C; ++c) t["dw"].expect(c, dw[size_t(c)], dw_scale[size_t(c)], double(R) / 64 + 64 + 4);
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t r = 0; r < R; ++r) {
      const double rstd = row_truth(t["h"], r, C, eps).rstd;
      for (int64_t c = 0; c < C; ++c) {
        const int64_t i = r * C + c;
        loss += t["dy"][i] * t["h"][i] * rstd * t["w"][c] + (residual ? t["dh"][i] * t["h"][i] : 0);
      }
    }
    return loss;
  };
  p.derivatives = {{"h", "dx"}, {"w", "dw"}};
  return p;
}

}  // namespace

void add_specs_rms_norm(Registry& registry) {
  const std::string op = "rms_norm";
  for (DType dtype : {DType::f32, DType::bf16}) {
    const Size sizes[] = {{1, 1}, {4, 7}, {3, 257}, {3, 1025}, {257, 64}, {131, 16}, {2, 4099}, {2, 8192}, {2, 33008}, {0, 8}};
    for (Size s : sizes) {
      const std::string name = dims({s.rows, s.columns});
      for (Layout layout : {Layout::contiguous, Layout::padded_rows}) {
        const std::string suffix = layout == Layout::padded_rows ? "/padded" : "";
        registry.add({op, "forward", dtype, name + suffix, [=] { return forward(dtype, dtype, s, 1e-5, layout, false); }});
        registry.add({op, "backward", dtype, name + suffix, [=] { return backward(dtype, dtype, s, 1e-5, layout, false); }});
        registry.add({op, "residual", dtype, name + suffix, [=] { return forward(dtype, dtype, s, 1e-5, layout, true); }});
        registry.add({op, "residual_backward", dtype, name + suffix, [=] { return backward(dtype, dtype, s, 1e-5, layout, true); }});
      }
    }
    const Size s{5, 33};
    // A mean square near eps is where a lost eps shows.
    registry.add(
        {op, "forward", dtype, "tiny_values", [=] { return forward(dtype, dtype, s, 1e-2, Layout::contiguous, false, normal(0.05)); }});
    registry.add({op, "forward", dtype, "zeros", [=] { return forward(dtype, dtype, s, 1e-5, Layout::contiguous, false, constant(0)); }});
    registry.add({op, "forward", dtype, "nan",
                  [=] { return forward(dtype, dtype, s, 1e-5, Layout::contiguous, false, sprinkle(normal(), 66, 3, NAN)); }});
    registry.add({op, "forward", dtype, "infinity",
                  [=] { return forward(dtype, dtype, s, 1e-5, Layout::contiguous, false, sprinkle(normal(), 66, 3, INFINITY)); }});
    for (Size c : {Size{2048, 384}, Size{1201, 387}})
      for (bool residual : {false, true}) {
        const std::string name = dims({c.rows, c.columns});
        registry.count({op, residual ? "residual" : "forward", dtype, name,
                        [=] { return forward(dtype, dtype, c, 1e-5, Layout::contiguous, residual); }});
        registry.count({op, residual ? "residual_backward" : "backward", dtype, name,
                        [=] { return backward(dtype, dtype, c, 1e-5, Layout::contiguous, residual); }});
      }
    for (Size b : {Size{2048, 384}, Size{32768, 4096}}) {
      const std::string name = dims({b.rows, b.columns});
      registry.bench({op, "forward", dtype, name, [=] { return forward(dtype, dtype, b, 1e-5, Layout::contiguous, false); }});
      registry.bench({op, "backward", dtype, name, [=] { return backward(dtype, dtype, b, 1e-5, Layout::contiguous, false); }});
    }
  }
  registry.add({op, "forward", DType::bf16, "f32_weight",
                [] { return forward(DType::bf16, DType::f32, {9, 65}, 1e-5, Layout::contiguous, false); }});
  registry.add({op, "backward", DType::bf16, "f32_weight",
                [] { return backward(DType::bf16, DType::f32, {9, 65}, 1e-5, Layout::contiguous, false); }});

  const auto from_golden = [](const GoldenCase& g, Problem p, const char* x, std::initializer_list<const char*> outputs) {
    p.given(x, g.values("x")).given("w", g.values("w"));
    for (const char* name : outputs) p.golden(name, g.values(name));
    return p;
  };
  const auto size_of_case = [](const GoldenCase& g) { return Size{g.integer("rows"), g.integer("dim")}; };
  registry.golden({op, "golden_forward", "rms_norm.safetensors", [=](const GoldenCase& g) {
                     return from_golden(g, forward(DType::f32, DType::f32, size_of_case(g), g.number("eps"), Layout::contiguous, false),
                                        "x", {"y"});
                   }});
  registry.golden({op, "golden_backward", "rms_norm.safetensors", [=](const GoldenCase& g) {
                     Problem p =
                         from_golden(g, backward(DType::f32, DType::f32, size_of_case(g), g.number("eps"), Layout::contiguous, false), "h",
                                     {"dx", "dw"});
                     return p.given("dy", g.values("dy"));
                   }});

  registry.rejects(op, "weight_rank", [](Device& d) { rms_norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {1, 8}), 1e-5f); });
  registry.rejects(op, "weight_length", [](Device& d) { rms_norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {7}), 1e-5f); });
  registry.rejects(op, "weight_dtype", [](Device& d) { rms_norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {8}, DType::bf16), 1e-5f); });
  registry.rejects(op, "integer_input", [](Device& d) { rms_norm(Tensor::empty(d, {2, 8}, DType::i32), Tensor::empty(d, {8}), 1e-5f); });
  registry.rejects(op, "undefined_weight", [](Device& d) { rms_norm(Tensor::empty(d, {2, 8}), Tensor(), 1e-5f); });
  registry.rejects(op, "undefined_input", [](Device& d) { rms_norm(Tensor(), Tensor::empty(d, {8}), 1e-5f); });
  registry.rejects(op, "negative_eps", [](Device& d) { rms_norm(Tensor::empty(d, {2, 8}), Tensor::empty(d, {8}), -1.0f); });
  registry.rejects(op, "transposed_rows",
                   [](Device& d) { rms_norm(Tensor::empty(d, {8, 2}).permute({1, 0}), Tensor::empty(d, {8}), 1e-5f); });
  registry.rejects(op, "residual_shape",
                   [](Device& d) { rms_norm_residual(Tensor::empty(d, {2, 8}), Tensor::empty(d, {3, 8}), Tensor::empty(d, {8}), 1e-5f); });
}

}  // namespace weft::spec
