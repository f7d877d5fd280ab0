#include <algorithm>
#include <cmath>

#include "weft/ops/norm_heads/norm_heads.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"
#include "weft/spec/rows_reference.h"

namespace weft::spec {
namespace {

constexpr const char* kOp = NormHeadsArgs::kOp;
constexpr float kEps = 1e-5f;

struct Setup {
  std::vector<int64_t> start;  // one per sequence
  int64_t C, H, K, D, capacity;
  bool delta = true, bias = false, turned = true;
  int64_t page = 0;  // positions per page; 0: not paged
  bool normed = false;

  int64_t R() const { return int64_t(start.size()); }
  int64_t pages() const { return capacity / page; }     // per sequence
  int64_t stored() const { return R() * pages() + 1; }  // in the cache; no sequence uses page 0
  int64_t page_of(int64_t b, int64_t n) const { return stored() - 1 - (b * pages() + n); }
  int64_t row(int64_t b) const {
    const int64_t t = start[size_t(b)];
    return page > 0 ? page_of(b, t / page) * page + t % page : b * capacity + t;
  }
  std::string name() const {
    return join(dims({R(), C, H, K, D}), "/after_", start.back(), "_of_", capacity, delta ? "" : "/no_delta", bias ? "/bias" : "",
                turned ? "" : "/no_rope", page > 0 ? "/pages" : "", normed ? "/norms" : "");
  }
};

// The D elements of a head of row r: normed if there is a `gain`, with RoPE if `turned`. Calls `expect` with the place, value and error of
// each.
struct HeadOf {
  const char *weight, *bias, *gain;
  bool turned;
};
template <class Expect>
void expect_head(const Setup& s, const Truth& t, const std::vector<double>& n, const HeadOf& of, int64_t r, int64_t head,
                 const Expect& expect) {
  const int64_t half = s.D / 2;
  std::vector<Estimate> x;
  for (int64_t d = 0; d < s.D; ++d) x.push_back(projected(n, t, of.weight, of.bias, r, head * s.D + d, s.C));
  if (s.normed && of.gain) {
    double squares = 0, error = 0;
    for (const Estimate& e : x) squares += e.value * e.value, error += 2 * std::abs(e.value) * e.error + e.error * e.error;
    const double mean = squares / double(s.D) + kEps, rstd = 1 / std::sqrt(mean);
    // 1 / sqrt changes by at most the error of the mean times its derivative at the smaller end.
    const double low = std::max(double(kEps), mean - error / double(s.D)), off = 0.5 * error / double(s.D) / (low * std::sqrt(low));
    for (int64_t d = 0; d < s.D; ++d) {
      Estimate& e = x[size_t(d)];
      const double gain = t[of.gain][d], value = e.value * rstd * gain;
      e = {value, (e.error * (rstd + off) + std::abs(e.value) * off) * std::abs(gain) + std::abs(value) * 0x1p-8};
    }
  }
  for (int64_t i = 0; i < half; ++i) {
    const Estimate &a = x[size_t(i)], &b = x[size_t(i + half)];
    double c = 1, sine = 0;
    if (of.turned && s.turned) c = t["cos"][s.start[size_t(r)] * half + i], sine = t["sin"][s.start[size_t(r)] * half + i];
    const double error = a.error * std::abs(c) + b.error * std::abs(sine), other = b.error * std::abs(c) + a.error * std::abs(sine);
    const double size = (std::abs(a.value) + std::abs(b.value)) * 0x1p-22;
    expect(i, a.value * c - b.value * sine, error + size);
    expect(i + half, b.value * c + a.value * sine, other + size);
  }
}

Problem problem(const Setup& s) {
  const DType dtype = DType::bf16;
  const int64_t R = s.R(), C = s.C, D = s.D;
  Problem p;
  p.input("x", dtype, {R, C}, normal());
  if (s.delta) p.input("delta", dtype, {R, C}, normal()).output("h", dtype, {R, C});
  p.input("w", dtype, {C}, uniform(0.5, 1.5));
  const std::pair<const char*, int64_t> projections[] = {{"q", s.H}, {"k", s.K}, {"v", s.K}};
  for (const auto& [name, heads] : projections) {
    p.input(join(name, "_weight"), dtype, {heads * D, C}, normal(1 / std::sqrt(double(C))));
    if (s.bias) p.input(join(name, "_bias"), dtype, {heads * D}, normal());
  }
  if (s.turned)
    p.input("cos", DType::f32, {s.capacity, D / 2}, uniform(-1, 1)).input("sin", DType::f32, {s.capacity, D / 2}, uniform(-1, 1));
  if (s.normed)
    for (const char* name : {"q_norm", "k_norm"}) p.input(name, s.bias ? DType::f32 : dtype, {D}, uniform(0.5, 1.5));
  p.input("start", DType::i32, {R}, [=](PhiloxStream&, int64_t b) { return double(s.start[size_t(b)]); });
  p.output("q", dtype, {R, s.H, D});
  const Shape stored{s.page > 0 ? s.stored() : R, s.page > 0 ? s.page : s.capacity, s.K, D};
  for (const char* name : {"k_cache", "v_cache"}) p.in_place(name, dtype, stored, normal());
  if (s.page > 0)
    p.input("pages", DType::i32, {R, s.pages()}, [=](PhiloxStream&, int64_t i) { return double(s.page_of(i / s.pages(), i % s.pages())); });
  p.launches<NormHeadsArgs>(norm_heads, [=](NormHeadsArgs& a) { a.eps = kEps; });
  p.reference = [=](Truth& t) {
    const std::vector<double> n = normed_rows(t, dtype, R, C, kEps);
    for (int64_t r = 0; r < R; ++r)
      for (int64_t h = 0; h < s.H; ++h)
        expect_head(s, t, n, {"q_weight", "q_bias", "q_norm", true}, r, h,
                    [&](int64_t d, double value, double error) { t["q"].expect_within((r * s.H + h) * D + d, value, error); });
    const std::pair<const char*, HeadOf> caches[] = {{"k_cache", {"k_weight", "k_bias", "k_norm", true}},
                                                     {"v_cache", {"v_weight", "v_bias", nullptr, false}}};
    for (const auto& [cache, of] : caches) {
      const Array before = t[cache];
      Array& after = t[result(cache)];
      for (int64_t i = 0; i < before.size(); ++i) after.expect_within(i, before[i], 0);
      for (double& bound : after.bound) bound = 0;
      for (int64_t r = 0; r < R; ++r)
        for (int64_t h = 0; h < s.K; ++h)
          expect_head(s, t, n, of, r, h, [&, &after = after](int64_t d, double value, double error) {
            after.expect_within((s.row(r) * s.K + h) * D + d, value, error);
          });
    }
  };
  return p;
}

void add_rejections(Registry& registry) {
  const auto reject = [&](const char* name, int64_t rows, int64_t q_rows, int64_t k_rows, int64_t D, int64_t frequencies, int32_t start) {
    registry.rejects(kOp, name, [=](Device& d) {
      const auto make = [&](Shape s) { return zeros(d, s, DType::bf16); };
      const Tensor x = make({rows, 64}), w = make({64}), qw = make({q_rows, 64}), kw = make({k_rows, 64}), vw = make({k_rows, 64});
      const Tensor q = make({rows, 2, D}), keys = make({rows, 8, 1, D}), values = make({rows, 8, 1, D});
      const Tensor cos = zeros(d, {8, frequencies}), sin = zeros(d, {8, frequencies});
      const Tensor at = Tensor::from_host(d, {rows}, std::vector<int32_t>(size_t(rows), start));
      norm_heads(d.stream(), {.x = x.view(),
                              .delta = {},
                              .w = w.view(),
                              .q_weight = qw.view(),
                              .k_weight = kw.view(),
                              .v_weight = vw.view(),
                              .cos = cos.view(),
                              .sin = sin.view(),
                              .start = at.view(),
                              .h = {},
                              .q = q.mut_view(),
                              .k_cache = keys.mut_view(),
                              .v_cache = values.mut_view(),
                              .eps = 0});
    });
  };
  reject("too_many_rows", 9, 64, 32, 32, 16, 0);
  reject("head_dim", 1, 48, 24, 24, 12, 0);
  reject("rows_of_q", 1, 96, 32, 32, 16, 0);
  reject("rows_of_k", 1, 64, 64, 32, 16, 0);
  reject("frequencies", 1, 64, 32, 32, 8, 0);
  reject("past_the_cache", 1, 64, 32, 32, 16, 8);
  reject("negative_start", 1, 64, 32, 32, 16, -1);
}

}  // namespace

void add_specs_norm_heads(Registry& registry) {
  for (const Setup& s :
       {Setup{{0}, 64, 1, 1, 16, 1}, Setup{{5}, 64, 2, 1, 32, 16, false}, Setup{{7, 0, 63}, 192, 6, 2, 48, 64, true, true},
        Setup{{1, 2, 3, 4, 5, 6, 7, 8}, 256, 4, 4, 64, 9}, Setup{{100}, 576, 9, 3, 64, 128},
        Setup{{63, 64, 0, 130}, 320, 3, 1, 64, 192, true, false, true, 64}, Setup{{12, 700}, 512, 8, 2, 128, 1024, true, true, false},
        Setup{{40}, 2048, 4, 2, 256, 64}, Setup{{3}, 4096, 2, 1, 128, 8}, Setup{{9, 64}, 256, 4, 2, 128, 192, true, false, true, 64, true},
        Setup{{9, 4, 2}, 128, 3, 1, 48, 16, false, true, true, 0, true}, Setup{{9}, 128, 2, 1, 256, 16, true, false, false, 0, true}})
    registry.add({kOp, "forward", DType::bf16, s.name(), [=] { return problem(s); }});
  for (const Setup& s :
       {Setup{{127}, 2048, 32, 8, 64, 1024}, Setup{std::vector<int64_t>(8, 127), 2048, 32, 8, 64, 1024}, Setup{{127}, 576, 9, 3, 64, 1024}})
    registry.bench_gpu({kOp, "forward", DType::bf16, s.name(), [=] { return problem(s); }});
  add_rejections(registry);
}

}  // namespace weft::spec
