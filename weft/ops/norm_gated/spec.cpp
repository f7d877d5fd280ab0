#include <cmath>

#include "weft/ops/norm_gated/norm_gated.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"
#include "weft/spec/rows_reference.h"

namespace weft::spec {
namespace {

constexpr const char* kOp = NormGatedArgs::kOp;

struct Setup {
  int64_t R, C, F;
  bool delta = true, bias = false;
  DType gain = DType::bf16;
};

Problem problem(const Setup& s) {
  const DType dtype = DType::bf16;
  const float eps = 1e-5f;
  Problem p;
  p.input("x", dtype, {s.R, s.C}, normal());
  if (s.delta) p.input("delta", dtype, {s.R, s.C}, normal()).output("h", dtype, {s.R, s.C});
  p.input("w", s.gain, {s.C}, uniform(0.5, 1.5));
  for (const char* name : {"gate", "up"}) p.input(name, dtype, {s.F, s.C}, normal(1 / std::sqrt(double(s.C))));
  if (s.bias) p.input("gate_bias", dtype, {s.F}, normal()).input("up_bias", dtype, {s.F}, normal());
  p.output("y", dtype, {s.R, s.F});
  p.launches<NormGatedArgs>(norm_gated, [=](NormGatedArgs& a) { a.eps = eps; });
  p.reference = [=](Truth& t) {
    const std::vector<double> n = normed_rows(t, dtype, s.R, s.C, eps);
    for (int64_t r = 0; r < s.R; ++r)
      for (int64_t f = 0; f < s.F; ++f) {
        const Estimate g = projected(n, t, "gate", "gate_bias", r, f, s.C), u = projected(n, t, "up", "up_bias", r, f, s.C);
        const double silu = g.value / (1 + std::exp(-g.value));  // its derivative is at most 1.1
        const double error = 1.1 * g.error * (std::abs(u.value) + u.error) + std::abs(silu) * u.error;
        t["y"].expect_within(r * s.F + f, silu * u.value, error + std::abs(silu * u.value) * 0x1p-21);
      }
  };
  return p;
}

void add_rejections(Registry& registry) {
  const auto reject = [&](const char* name, Shape x, Shape gate, Shape up, Shape y) {
    registry.rejects(kOp, name, [=](Device& d) {
      const auto make = [&](Shape s) { return zeros(d, s, DType::bf16); };
      const Tensor rows = make(x), w = make({x[1]}), g = make(gate), u = make(up), out = make(y);
      norm_gated(d.stream(),
                 {.x = rows.view(), .delta = {}, .w = w.view(), .gate = g.view(), .up = u.view(), .h = {}, .y = out.mut_view(), .eps = 0});
    });
  };
  reject("too_many_rows", {9, 64}, {8, 64}, {8, 64}, {9, 8});
  reject("columns_no_multiple_of_64", {1, 96}, {8, 96}, {8, 96}, {1, 8});
  reject("rows_too_long", {2, 12288}, {8, 12288}, {8, 12288}, {2, 8});
  reject("up_of_other_width", {1, 64}, {8, 64}, {16, 64}, {1, 8});
  reject("weights_of_other_columns", {1, 64}, {8, 128}, {8, 128}, {1, 8});
  reject("result_of_other_rows", {2, 64}, {8, 64}, {8, 64}, {1, 8});
}

}  // namespace

void add_specs_norm_gated(Registry& registry) {
  for (const Setup& s : {Setup{1, 64, 1}, Setup{1, 64, 8, false}, Setup{2, 128, 17, true, true}, Setup{8, 256, 40},
                         Setup{3, 320, 33, true, true, DType::f32}, Setup{1, 576, 1536}, Setup{5, 2048, 64}, Setup{8, 2112, 24},
                         Setup{1, 4096, 300, false, false, DType::f32}, Setup{2, 8192, 16, true, false}, Setup{1, 256, 9000}})
    registry.add({kOp, "forward", DType::bf16,
                  join(dims({s.R, s.C, s.F}), s.delta ? "" : "/no_delta", s.bias ? "/bias" : "", s.gain == DType::f32 ? "/gain_f32" : ""),
                  [=] { return problem(s); }});
  for (const Setup& s : {Setup{1, 2048, 8192}, Setup{8, 2048, 8192}, Setup{1, 576, 1536}})
    registry.bench_gpu({kOp, "forward", DType::bf16, dims({s.R, s.C, s.F}), [=] { return problem(s); }});
  add_rejections(registry);
}

}  // namespace weft::spec
