#include <algorithm>
#include <cmath>

#include "weft/ops/kv_attention/kv_attention.h"
#include "weft/spec/registry.h"
#include "weft/tile/cpu/bf16_dot.h"

namespace weft::spec {
namespace {

struct Size {
  std::vector<int64_t> start;  // one per sequence
  int64_t Tq, capacity, H, Hkv, D;

  int64_t B() const { return int64_t(start.size()); }
  std::string name() const { return join(dims({B(), Tq, H, Hkv, D}), "/after_", start.empty() ? 0 : start.back(), "_of_", capacity); }
};

// By token [B, T, heads, D] or by head [B, heads, T, D].
int64_t row(bool by_head, int64_t T, int64_t heads, int64_t b, int64_t t, int64_t h) {
  return by_head ? (b * heads + h) * T + t : (b * T + t) * heads + h;
}

// The cache after the last query must not be read: it holds NaN.
Fill cache(const Size& s, bool by_head, Fill fill) {
  return [=](PhiloxStream& random, int64_t i) {
    const double drawn = fill(random, i);
    const int64_t r = i / s.D, position = by_head ? r % s.capacity : r / s.Hkv % s.capacity, b = r / (s.capacity * s.Hkv);
    return position < s.start[size_t(b)] + s.Tq ? drawn : NAN;
  };
}

// Bounds as in causal_attention's spec: a score errs by D + 2 roundings of the magnitudes it sums, and its exponential by
// that much relatively, by the rounding of its argument and by 3 of its own. p is scaled down as the maximum grows, tile by
// tile and chunk by chunk; the maximum moves by at most the row's span. Numerator and denominator err by that, e, and by
// the roundings of a sum of n terms each.
void attend(Truth& t, const Size& s, bool by_head, double scale) {
  const Array &q = t["q"], &k = t["k"], &v = t["v"];
  const double u = unit_roundoff(DType::f32);
  t["o"].narrow_on_cpu = cpu::bf16_dot() != cpu::Bf16Dot::none;  // as in causal_attention, which rounds p to bf16 then
  for (int64_t b = 0; b < s.B(); ++b)
    for (int64_t i = 0; i < s.Tq; ++i)
      for (int64_t h = 0; h < s.H; ++h) {
        const int64_t n = s.start[size_t(b)] + i + 1, qi = row(by_head, s.Tq, s.H, b, i, h) * s.D;
        const auto cached = [&](int64_t j) { return row(by_head, s.capacity, s.Hkv, b, j, h / (s.H / s.Hkv)) * s.D; };
        std::vector<double> score(size_t(n), 0), size(size_t(n), 0);
        double most = -INFINITY, least = INFINITY, total = 0, e = 0;
        for (int64_t j = 0; j < n; ++j) {
          for (int64_t d = 0; d < s.D; ++d) {
            const double term = scale * q[qi + d] * k[cached(j) + d];
            score[size_t(j)] += term;
            size[size_t(j)] += std::abs(term);
          }
          most = std::max(most, score[size_t(j)]);
          least = std::min(least, score[size_t(j)]);
        }
        for (int64_t j = 0; j < n; ++j) {
          e = std::max(e, growth(double(s.D) + 2) * u * size[size_t(j)] + u * (most - score[size_t(j)]));
          score[size_t(j)] = std::exp(score[size_t(j)] - most);
          total += score[size_t(j)];
        }
        const double steps = double(n) / 64 + double(n) / 512 + 3;
        e += u * (most - least) + 4 * u * steps + growth(double(n) + steps + 3) * u;
        for (int64_t d = 0; d < s.D; ++d) {
          double o = 0, o_size = 0;
          for (int64_t j = 0; j < n; ++j) {
            const double term = score[size_t(j)] / total * v[cached(j) + d];
            o += term;
            o_size += std::abs(term);
          }
          t["o"].expect_within(qi + d, o, 2 * e * o_size);
          if (q.dtype == DType::bf16) t["o"].allow_narrow(qi + d, o_size);  // p
        }
      }
}

Problem problem(DType dtype, Size s, bool by_head = false, Layout layout = Layout::contiguous, Fill values = normal(), float scale = 0) {
  if (scale == 0) scale = 1 / std::sqrt(float(s.D));
  const auto shape = [&](int64_t T, int64_t heads) { return by_head ? Shape{s.B(), heads, T, s.D} : Shape{s.B(), T, heads, s.D}; };
  Problem p;
  p.input("q", dtype, shape(s.Tq, s.H), normal(), layout);
  p.input("k", dtype, shape(s.capacity, s.Hkv), cache(s, by_head, normal()), layout);
  p.input("v", dtype, shape(s.capacity, s.Hkv), cache(s, by_head, values), layout);
  p.input("start", DType::i32, {s.B()}, [=](PhiloxStream&, int64_t b) { return double(s.start[size_t(b)]); });
  p.output("o", dtype, shape(s.Tq, s.H), layout);
  const auto args = [=](const Bound& b) {
    const auto seen = [&](const char* name) { return by_head ? b.tensor(name).permute({0, 2, 1, 3}) : b.tensor(name); };
    return KvAttentionArgs{.q = seen("q").view(),
                           .k_cache = seen("k").view(),
                           .v_cache = seen("v").view(),
                           .start = b.view("start"),
                           .o = seen("o").mut_view(),
                           .scale = scale};
  };
  p.run = [=](Stream& stream, const Bound& b) { kv_attention(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { attend(t, s, by_head, scale); };
  return p;
}

void add_rejections(Registry& registry) {
  const auto reject = [&](const char* name, Shape q, Shape k, Shape v, std::vector<int32_t> start) {
    registry.rejects("kv_attention", name, [=](Device& d) {
      kv_attention(Tensor::empty(d, q), Tensor::empty(d, k), Tensor::empty(d, v), Tensor::from_host(d, {int64_t(start.size())}, start));
    });
  };
  reject("past_the_cache", {2, 3, 2, 8}, {2, 16, 2, 8}, {2, 16, 2, 8}, {13, 14});
  reject("negative_start", {2, 3, 2, 8}, {2, 16, 2, 8}, {2, 16, 2, 8}, {0, -1});
  reject("start_that_overflows", {2, 3, 2, 8}, {2, 16, 2, 8}, {2, 16, 2, 8}, {0, INT32_MAX});
  reject("start_that_overflows_decoding", {2, 1, 2, 8}, {2, 16, 2, 8}, {2, 16, 2, 8}, {0, INT32_MAX});
  reject("more_queries_than_capacity", {1, 17, 2, 8}, {1, 16, 2, 8}, {1, 16, 2, 8}, {0});
  reject("heads_no_multiple", {1, 3, 3, 8}, {1, 16, 2, 8}, {1, 16, 2, 8}, {0});
  reject("no_key_heads", {1, 3, 3, 8}, {1, 16, 0, 8}, {1, 16, 0, 8}, {0});
  reject("head_dim_too_large", {1, 3, 2, 257}, {1, 16, 2, 257}, {1, 16, 2, 257}, {0});
  reject("starts_of_other_batch", {2, 3, 2, 8}, {2, 16, 2, 8}, {2, 16, 2, 8}, {0});
  reject("value_shape", {1, 3, 2, 8}, {1, 16, 2, 8}, {1, 15, 2, 8}, {0});
  reject("rank", {3, 2, 8}, {1, 16, 2, 8}, {1, 16, 2, 8}, {0});
  registry.rejects("kv_attention", "undefined_start", [](Device& d) {
    kv_attention(Tensor::empty(d, {1, 3, 2, 8}), Tensor::empty(d, {1, 16, 2, 8}), Tensor::empty(d, {1, 16, 2, 8}), Tensor());
  });
  registry.rejects("kv_attention", "gradient", [](Device& d) {
    Tensor q = Tensor::from_host(d, {1, 1, 1, 1}, std::vector<float>{1}), k = Tensor::from_host(d, {1, 1, 1, 1}, std::vector<float>{1});
    kv_attention(q.set_requires_grad(), k, k, Tensor::from_host(d, {1}, std::vector<int32_t>{0}));
  });
}

}  // namespace

void add_specs_kv_attention(Registry& registry) {
  const char* op = "kv_attention";
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto add = [&](const Size& s, const std::string& suffix, bool by_head, Layout layout, Fill values = normal(), float scale = 0) {
      registry.add({op, s.Tq == 1 ? "decode" : "prefill", dtype, s.name() + suffix,
                    [=] { return problem(dtype, s, by_head, layout, values, scale); }});
    };
    for (const Size& s : {Size{{0}, 1, 1, 1, 1, 4},         Size{{5}, 1, 16, 4, 2, 8},          Size{{63, 64, 0}, 1, 70, 6, 2, 64},
                          Size{{511}, 1, 512, 2, 1, 16},    Size{{512}, 1, 600, 3, 3, 33},      Size{{1500, 30}, 1, 1600, 9, 3, 64},
                          Size{{17}, 1, 20, 65, 1, 12},     Size{{530}, 1, 531, 16, 2, 32},     Size{{40}, 1, 41, 5, 1, 48},
                          Size{{100}, 1, 101, 2, 1, 256},   Size{{0}, 5, 5, 4, 2, 8},           Size{{33, 2}, 7, 40, 4, 4, 32},
                          Size{{0, 60}, 65, 130, 6, 2, 20}, Size{{3}, 130, 140, 2, 1, 80},      Size{{505}, 9, 520, 4, 2, 16},
                          Size{{700}, 40, 740, 4, 1, 16},   Size{{259}, 1, 260, 128, 128, 1},   Size{{270}, 1, 300, 2, 1, 130},
                          Size{{250}, 9, 262, 2, 1, 130},   Size{{255, 256}, 1, 257, 2, 1, 70}, Size{{}, 3, 8, 2, 1, 8},
                          Size{{4}, 0, 8, 2, 1, 8}}) {
      add(s, "", false, Layout::contiguous);
      add(s, "/by_head", true, Layout::contiguous);
    }
    add({{70, 3}, 1, 90, 4, 2, 20}, "/padded", true, Layout::padded_rows);
    add({{70, 3}, 11, 90, 4, 2, 20}, "/padded", false, Layout::padded_rows);
    add({{70}, 1, 90, 4, 2, 20}, "/scale", false, Layout::contiguous, normal(), 0.7f);
    for (int64_t Tq : {1, 20})
      add({{60}, Tq, 90, 4, 2, 16}, "/huge_scores", false, Layout::contiguous, normal(), 1e11f);  // outputs are numbers
    // A NaN at position 66 reaches the queries that attend to it and no others.
    add({{60}, 20, 90, 4, 2, 16}, "/nan", false, Layout::contiguous, sprinkle(normal(), 90 * 2 * 16, 66 * 2 * 16 + 3, NAN));
    add({{60}, 20, 90, 4, 2, 16}, "/infinity", false, Layout::contiguous, sprinkle(normal(), 90 * 2 * 16, 66 * 2 * 16 + 3, INFINITY));
    add({{80}, 1, 90, 4, 2, 16}, "/nan", false, Layout::contiguous, sprinkle(normal(), 90 * 2 * 16, 66 * 2 * 16 + 3, NAN));
    // Caches longer than 12 and 16 bits count. Only values past those positions are not 0, so that a start or a key that is lost
    // shows although the bound grows with the length.
    for (const auto& [start, zeros] : {std::pair<int64_t, int64_t>{5000, 4096}, {70000, 65536}}) {
      const Fill late = [=](PhiloxStream& random, int64_t i) { return i / 2 < zeros ? 0 : 4 + random.normal(); };
      for (int64_t Tq : {1, 3}) add({{start}, Tq, start + Tq, 1, 1, 2}, "/long", false, Layout::contiguous, late);
    }
    for (int64_t cached : {1024, 32768}) {
      const Size s{{cached - 1}, 1, cached, 9, 3, 64};
      registry.bench({op, "decode", dtype, s.name(), [=] { return problem(dtype, s); }});
    }
    for (int64_t cached : {65536, 8192}) {
      const Size s{{cached - 1}, 1, cached, 32, 8, 128};
      registry.bench_gpu({op, "decode", dtype, s.name(), [=] { return problem(dtype, s); }});
    }
    const Size prompt{{0}, 512, 512, 9, 3, 64};
    registry.bench({op, "prefill", dtype, prompt.name(), [=] { return problem(dtype, prompt); }});
  }
  registry.golden({op, "golden", "kv_attention.safetensors", [](const GoldenCase& g) {
                     const int64_t start = g.integer("cache_start"), Tq = g.integer("q_len");
                     const Size s{{start}, Tq, start + Tq, g.integer("heads"), g.integer("kv_heads"), g.integer("head_dim")};
                     return problem(DType::f32, s)
                         .given("q", g.values("q"))
                         .given("k", g.values("k"))
                         .given("v", g.values("v"))
                         .golden("o", g.values("o"));
                   }});
  add_rejections(registry);
}

}  // namespace weft::spec
