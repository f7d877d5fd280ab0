#include <cmath>

#include "weft/ops/rms_norm/rms_norm.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Setup {
  RowCase size;
  bool residual = false;
  double eps = 1e-5;
  Fill fill = normal();
  DType weight = size.dtype;
};

double true_rstd(const Array& h, int64_t r, int64_t C, double eps) {
  double mean_square = 0;
  for (int64_t c = 0; c < C; ++c) mean_square += h[r * C + c] * h[r * C + c] / double(C);
  return 1 / std::sqrt(mean_square + eps);
}

// A sum of n terms is a chain of n / 64 additions per lane, then six levels of tree.
double chain(int64_t n) { return double(n) / 64 + 8; }

// rstd errs by half the relative error of the mean square, plus a square root and a division.
double rstd_roundings(int64_t C) { return chain(C) / 2 + 3; }

Problem forward(const Setup& s) {
  const auto [dtype, R, C, layout] = s.size;
  Problem p;
  p.input("x", dtype, {R, C}, s.fill, layout);
  if (s.residual) p.input("residual", dtype, {R, C}, normal(), layout).output("h", dtype, {R, C}, layout);
  p.input("w", s.weight, {C}, uniform(0.5, 1.5)).output("y", dtype, {R, C}, layout).output("rstd", DType::f32, {R});
  p.launches<RmsNormArgs>(rms_norm, [=](RmsNormArgs& a) { a.eps = float(s.eps); });
  p.reference = [=](Truth& t) {
    Array h = t["x"];
    if (s.residual)
      for (int64_t i = 0; i < R * C; ++i) {
        t["h"].expect(i, h[i] + t["residual"][i], std::abs(h[i] + t["residual"][i]), 1);
        h.v[size_t(i)] = round_to(dtype, h[i] + t["residual"][i]);  // the op normalises the rounded h
      }
    for (int64_t r = 0; r < R; ++r) {
      const double rstd = true_rstd(h, r, C, float(s.eps));
      t["rstd"].expect(r, rstd, rstd, rstd_roundings(C));
      for (int64_t c = 0; c < C; ++c) {
        const double y = h[r * C + c] * rstd * t["w"][c];
        t["y"].expect(r * C + c, y, y, rstd_roundings(C) + 2);
      }
    }
  };
  return p;
}

Problem backward(const Setup& s) {
  const auto [dtype, R, C, layout] = s.size;
  Problem p;
  p.input("dy", dtype, {R, C}, normal(), layout).input("h", dtype, {R, C}, normal(), layout);
  if (s.residual) p.input("dh", dtype, {R, C}, normal(), layout);
  p.input("w", s.weight, {C}, uniform(0.5, 1.5)).input("rstd", DType::f32, {R}, constant(0));
  p.output("dx", dtype, {R, C}, layout).output("dw", DType::f32, {C});
  p.prepare = [=](Truth& t) {
    for (int64_t r = 0; r < R; ++r) t["rstd"].v[size_t(r)] = true_rstd(t["h"], r, C, s.eps);
  };
  p.launches<RmsNormBackwardArgs>(rms_norm_backward);
  p.reference = [=](Truth& t) {
    const Array &dy = t["dy"], &h = t["h"], &w = t["w"];
    std::vector<double> dw(size_t(C), 0), dw_scale(size_t(C), 0);
    for (int64_t r = 0; r < R; ++r) {
      const double rstd = true_rstd(h, r, C, s.eps);
      double total = 0, total_scale = 0;
      for (int64_t c = 0; c < C; ++c) {
        const double term = dy[r * C + c] * w[c] * h[r * C + c];
        total += term;
        total_scale += std::abs(term);
      }
      for (int64_t c = 0; c < C; ++c) {
        const int64_t i = r * C + c;
        const double k = h[i] * rstd * rstd / double(C), other = s.residual ? t["dh"][i] : 0;
        const double dx = rstd * (dy[i] * w[c] - k * total) + other;
        const double scale = rstd * (std::abs(dy[i] * w[c]) + std::abs(k) * total_scale) + std::abs(other);
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
      const double rstd = true_rstd(t["h"], r, C, s.eps);
      for (int64_t c = 0; c < C; ++c) {
        const int64_t i = r * C + c;
        loss += t["dy"][i] * t["h"][i] * rstd * t["w"][c] + (s.residual ? t["dh"][i] * t["h"][i] : 0);
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
  const RowSizes sizes = {{1, 1}, {4, 7}, {3, 257}, {3, 1025}, {257, 64}, {131, 16}, {2, 4099}, {2, 8192}, {2, 33008}, {0, 8}};
  const RowSizes counted = {{2048, 384}, {1201, 387}}, timed = {{2048, 384}, {32768, 4096}};
  for (bool residual : {false, true}) {
    const auto make_forward = [=](const RowCase& c) { return forward({c, residual}); };
    const auto make_backward = [=](const RowCase& c) { return backward({c, residual}); };
    const std::string name = residual ? "residual" : "forward", backward_name = residual ? "residual_backward" : "backward";
    registry.add_rows(op, name, sizes, make_forward);
    registry.add_rows(op, backward_name, sizes, make_backward);
    registry.count_rows(op, name, counted, make_forward);
    registry.count_rows(op, backward_name, counted, make_backward);
    for (auto [rows, columns] : RowSizes{{32768, 576}, {16384, 2048}}) {  // training steps on a GPU
      const RowCase c{DType::bf16, rows, columns};
      registry.bench_gpu({op, name, c.dtype, dims({rows, columns}), [=] { return make_forward(c); }});
      registry.bench_gpu({op, backward_name, c.dtype, dims({rows, columns}), [=] { return make_backward(c); }});
    }
    if (residual) continue;
    registry.bench_rows(op, name, timed, make_forward);
    registry.bench_rows(op, backward_name, timed, make_backward);
  }
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto special = [&](const char* name, Fill fill, double eps = 1e-5) {
      registry.add({op, "forward", dtype, name, [=] { return forward({{dtype, 5, 33}, false, eps, fill}); }});
    };
    special("tiny_values", normal(0.05), 1e-2);  // a mean square near eps is where a lost eps shows
    special("zeros", constant(0));
    special("nan", sprinkle(normal(), 66, 3, NAN));
    special("infinity", sprinkle(normal(), 66, 3, INFINITY));
  }
  const Setup mixed{.size = {DType::bf16, 9, 65}, .weight = DType::f32};
  registry.add({op, "forward", DType::bf16, "f32_weight", [=] { return forward(mixed); }});
  registry.add({op, "backward", DType::bf16, "f32_weight", [=] { return backward(mixed); }});

  const auto of_case = [](const GoldenCase& g) { return Setup{{DType::f32, g.integer("rows"), g.integer("dim")}, false, g.number("eps")}; };
  registry.golden({op, "golden_forward", "rms_norm.safetensors", [=](const GoldenCase& g) {
                     return forward(of_case(g)).given("x", g.values("x")).given("w", g.values("w")).golden("y", g.values("y"));
                   }});
  registry.golden({op, "golden_backward", "rms_norm.safetensors", [=](const GoldenCase& g) {
                     Problem p = backward(of_case(g)).given("h", g.values("x")).given("w", g.values("w")).given("dy", g.values("dy"));
                     return p.golden("dx", g.values("dx")).golden("dw", g.values("dw"));
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
