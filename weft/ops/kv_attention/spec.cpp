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
  int64_t page = 0;  // positions per page; 0: not paged

  int64_t B() const { return int64_t(start.size()); }
  int64_t pages() const { return capacity / page; }           // per sequence
  int64_t stored() const { return 2 + B() * (pages() - 1); }  // in the cache
  std::string name() const {
    const std::string of = join(dims({B(), Tq, H, Hkv, D}), "/after_", start.empty() ? 0 : start.back(), "_of_", capacity);
    return page > 0 ? join(of, "/pages_of_", page) : of;
  }
};

// By token [B, T, heads, D] or by head [B, heads, T, D].
int64_t row(bool by_head, int64_t T, int64_t heads, int64_t b, int64_t t, int64_t h) {
  return by_head ? (b * heads + h) * T + t : (b * T + t) * heads + h;
}

// The page table: pages are not in the order of positions, no sequence uses page 0, and all sequences share their first page.
int64_t page_of(const Size& s, int64_t b, int64_t n) { return n == 0 ? 1 : s.stored() - 1 - (b * (s.pages() - 1) + n - 1); }

// The row of position t of sequence b in the cache.
int64_t cached_row(const Size& s, bool by_head, int64_t b, int64_t t, int64_t h) {
  if (s.page == 0) return row(by_head, s.capacity, s.Hkv, b, t, h);
  return row(by_head, s.page, s.Hkv, page_of(s, b, t / s.page), t % s.page, h);
}

// The cache after the last query must not be read: it holds NaN.
Fill cache(const Size& s, bool by_head, Fill fill) {
  std::vector<bool> held(size_t(s.page > 0 ? s.stored() * s.page * s.Hkv : s.B() * s.capacity * s.Hkv));
  for (int64_t b = 0; b < s.B(); ++b)
    for (int64_t t = 0; t < s.start[size_t(b)] + s.Tq; ++t)
      for (int64_t h = 0; h < s.Hkv; ++h) held[size_t(cached_row(s, by_head, b, t, h))] = true;
  return [=](PhiloxStream& random, int64_t i) {
    const double drawn = fill(random, i);
    return held[size_t(i / s.D)] ? drawn : NAN;
  };
}

// Bounds as in causal_attention's spec. A score has an error of D + 2 roundings of the magnitudes it sums (with a soft cap: that times the
// cap's derivative, plus 7 roundings). Its exponential has this as a relative error, plus the rounding of its argument and 3 roundings. p
// is scaled down when the maximum grows, tile by tile and chunk by chunk; the maximum grows by at most the row's span. Numerator and
// denominator have this error, e, plus the roundings of a sum of n terms.
void attend(Truth& t, const Size& s, bool by_head, const KvAttentionOptions& options) {
  const double scale = options.scale, cap = options.soft_cap;
  const Array &q = t["q"], &k = t["k"], &v = t["v"];
  const double u = unit_roundoff(DType::f32);
  t["o"].narrow_on_cpu = cpu::bf16_dot() != cpu::Bf16Dot::none;  // as in causal_attention, which rounds p to bf16 then
  for (int64_t b = 0; b < s.B(); ++b)
    for (int64_t i = 0; i < s.Tq; ++i)
      for (int64_t h = 0; h < s.H; ++h) {
        const int64_t end = s.start[size_t(b)] + i + 1, first = options.window > 0 ? std::max<int64_t>(0, end - options.window) : 0;
        const int64_t n = end - first, qi = row(by_head, s.Tq, s.H, b, i, h) * s.D;
        const auto cached = [&](int64_t j) { return cached_row(s, by_head, b, first + j, h / (s.H / s.Hkv)) * s.D; };
        std::vector<double> score(size_t(n), 0), size(size_t(n), 0), error(size_t(n), 0);
        double most = -INFINITY, least = INFINITY, total = 0, e = 0;
        for (int64_t j = 0; j < n; ++j) {
          for (int64_t d = 0; d < s.D; ++d) {
            const double term = scale * q[qi + d] * k[cached(j) + d];
            score[size_t(j)] += term;
            size[size_t(j)] += std::abs(term);
          }
          error[size_t(j)] = growth(double(s.D) + 2) * u * size[size_t(j)];
          if (cap > 0) {
            const double c = std::tanh(score[size_t(j)] / cap);
            error[size_t(j)] = (1 - c * c) * error[size_t(j)] + 7 * u * std::abs(cap * c);
            score[size_t(j)] = cap * c;
          }
          most = std::max(most, score[size_t(j)]);
          least = std::min(least, score[size_t(j)]);
        }
        for (int64_t j = 0; j < n; ++j) {
          e = std::max(e, error[size_t(j)] + u * (most - score[size_t(j)]));
          score[size_t(j)] = std::exp(score[size_t(j)] - most);
          total += score[size_t(j)];
        }
        const double steps = double(n) / 64 + double(n) / 512 + 3;
        e += u * (most - least) + 4 * u * steps + growth(double(n) + steps + 3) * u;
        if (t.has("lse")) t["lse"].expect_within((b * s.H + h) * s.Tq + i, most + std::log(total), e + 4 * u * (1 + std::abs(most)));
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

Problem problem(DType dtype, Size s, bool by_head = false, Layout layout = Layout::contiguous, Fill values = normal(),
                KvAttentionOptions options = {}, bool keeps_lse = false) {
  if (options.scale == 0) options.scale = 1 / std::sqrt(float(s.D));
  const auto shape = [&](int64_t T, int64_t heads) { return by_head ? Shape{s.B(), heads, T, s.D} : Shape{s.B(), T, heads, s.D}; };
  Problem p;
  p.input("q", dtype, shape(s.Tq, s.H), normal(), layout);
  const Shape stored = s.page == 0 ? shape(s.capacity, s.Hkv)
                       : by_head   ? Shape{s.stored(), s.Hkv, s.page, s.D}
                                   : Shape{s.stored(), s.page, s.Hkv, s.D};
  p.input("k", dtype, stored, cache(s, by_head, normal()), layout);
  p.input("v", dtype, stored, cache(s, by_head, values), layout);
  if (s.page > 0)
    p.input("pages", DType::i32, {s.B(), s.pages()},
            [=](PhiloxStream&, int64_t i) { return double(page_of(s, i / s.pages(), i % s.pages())); });
  p.input("start", DType::i32, {s.B()}, [=](PhiloxStream&, int64_t b) { return double(s.start[size_t(b)]); });
  p.output("o", dtype, shape(s.Tq, s.H), layout);
  if (keeps_lse) p.output("lse", DType::f32, {s.B(), s.H, s.Tq});
  const auto args = [=](const Bound& b) {
    const auto seen = [&](const char* name) { return by_head ? b.tensor(name).permute({0, 2, 1, 3}) : b.tensor(name); };
    return KvAttentionArgs{.q = seen("q").view(),
                           .k_cache = seen("k").view(),
                           .v_cache = seen("v").view(),
                           .start = b.view("start"),
                           .o = seen("o").mut_view(),
                           .scale = options.scale,
                           .window = options.window,
                           .soft_cap = options.soft_cap,
                           .pages = s.page > 0 ? b.view("pages") : View(),
                           .lse = keeps_lse ? b.mut("lse") : MutView()};
  };
  p.run = [=](Stream& stream, const Bound& b) { kv_attention(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) { attend(t, s, by_head, options); };
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
  const auto reject_options = [&](const char* name, KvAttentionOptions options) {
    registry.rejects("kv_attention", name, [=](Device& d) {
      const Tensor cache = Tensor::empty(d, {1, 16, 2, 8});
      kv_attention(Tensor::empty(d, {1, 3, 2, 8}), cache, cache, Tensor::from_host(d, {1}, std::vector<int32_t>{0}), options);
    });
  };
  reject_options("window_negative", {.window = -1});
  reject_options("soft_cap_negative", {.soft_cap = -1});
  reject_options("soft_cap_nan", {.soft_cap = NAN});
  reject_options("scale_infinite", {.scale = INFINITY});
  const auto reject_pages = [&](const char* name, int64_t page, std::vector<int32_t> pages, Shape shape, int32_t start = 60) {
    registry.rejects("kv_attention", name, [=](Device& d) {
      const Tensor cache = Tensor::empty(d, {3, page, 2, 8});
      kv_attention(Tensor::empty(d, {1, 30, 2, 8}), cache, cache, Tensor::from_host(d, {1}, std::vector<int32_t>{start}),
                   {.pages = Tensor::from_host(d, shape, pages)});
    });
  };
  reject_pages("page_size", 60, {0, 1}, {1, 2});
  reject_pages("page_past_the_cache", 64, {0, 3}, {1, 2});
  reject_pages("page_negative", 64, {-1, 1}, {1, 2});
  reject_pages("pages_of_other_batch", 64, {0, 1, 2, 0}, {2, 2});
  reject_pages("past_the_pages", 64, {0, 1}, {1, 2}, 99);
  registry.rejects("kv_attention", "undefined_start", [](Device& d) {
    kv_attention(Tensor::empty(d, {1, 3, 2, 8}), Tensor::empty(d, {1, 16, 2, 8}), Tensor::empty(d, {1, 16, 2, 8}), Tensor());
  });
  registry.rejects("kv_attention", "gradient", [](Device& d) {
    Tensor q = Tensor::from_host(d, {1, 1, 1, 1}, std::vector<float>{1}), k = Tensor::from_host(d, {1, 1, 1, 1}, std::vector<float>{1});
    kv_attention(q.set_requires_grad(), k, k, Tensor::from_host(d, {1}, std::vector<int32_t>{0}));
  });
}

// Paged caches: pages of one tile and of several, sequences of different lengths, options, prompts that begin and end within a page.
void add_pages(Registry& registry, DType dtype) {
  const auto add = [&](Size s, int64_t page, const std::string& name = "", KvAttentionOptions options = {}, bool by_head = false,
                       Layout layout = Layout::contiguous) {
    s.page = page;
    registry.add({"kv_attention", s.Tq == 1 ? "decode" : "prefill", dtype, s.name() + name,
                  [=] { return problem(dtype, s, by_head, layout, normal(), options); }});
  };
  add({{0}, 1, 64, 2, 1, 8}, 64);
  add({{63, 64, 0, 130}, 1, 192, 6, 2, 64}, 64);
  add({{1500, 30, 700}, 1, 1536, 9, 3, 64}, 128);
  add({{600, 511}, 1, 640, 4, 2, 128}, 64);
  add({{300}, 1, 320, 2, 1, 256}, 64, "/by_head", {}, true);
  add({{270, 5}, 1, 384, 3, 1, 33}, 192, "/wide_rows", {}, false, Layout::padded_rows);
  add({{0, 60}, 65, 192, 6, 2, 20}, 64);
  add({{130, 3}, 70, 256, 4, 2, 16}, 64, "/by_head", {}, true);
  add({{700, 20}, 40, 768, 4, 1, 64}, 256);
  add({{505}, 9, 576, 2, 1, 256}, 64);
  add({{700, 20}, 1, 768, 4, 1, 64}, 64, "/window_100_soft_cap_3", {.window = 100, .soft_cap = 3});
  add({{600}, 40, 640, 4, 2, 32}, 64, "/window_70", {.window = 70});
}

// Windows that begin within a tile, at its first key, after the first segment and before the first key; blocks whose rows have different
// windows. A tile has 64 keys on the CPU and 8 to 32 on Metal; a segment has 512 and 256.
void add_options(Registry& registry, DType dtype) {
  const auto add = [&](const Size& s, const std::string& name, KvAttentionOptions options, bool by_head = false, Fill values = normal()) {
    registry.add({"kv_attention", s.Tq == 1 ? "decode" : "prefill", dtype, s.name() + "/" + name,
                  [=] { return problem(dtype, s, by_head, Layout::contiguous, values, options); }});
  };
  const auto window = [&](const Size& s, std::initializer_list<int64_t> windows) {
    for (int64_t w : windows) add(s, join("window_", w), {.window = w});
  };
  window({{199}, 1, 210, 4, 2, 16}, {1, 2, 8, 17, 63, 64, 65, 72, 100, 199, 200, 300});
  window({{1500, 30}, 1, 1600, 9, 3, 64}, {5, 33, 512, 700, 1501});
  window({{1023, 600}, 1, 1024, 2, 1, 128}, {129, 511, 513});
  window({{530}, 1, 531, 16, 2, 32}, {19, 500});
  window({{300}, 1, 310, 2, 1, 256}, {45, 290});
  window({{270}, 1, 300, 3, 1, 33}, {71});
  window({{130, 0}, 70, 210, 4, 2, 16}, {1, 9, 64, 65, 128, 150, 199});
  window({{700}, 40, 740, 4, 1, 16}, {30, 150, 600, 739});
  window({{600}, 9, 620, 2, 1, 130}, {77});
  add({{500}, 33, 540, 6, 2, 80}, "window_50", {.window = 50}, true);
  for (const Size& s : {Size{{150}, 1, 160, 4, 2, 64}, Size{{600}, 1, 610, 2, 1, 256}, Size{{40}, 1, 41, 5, 1, 48},
                        Size{{100, 3}, 30, 140, 4, 2, 64}, Size{{520}, 20, 540, 2, 2, 256}}) {
    for (float cap : {0.5f, 20.0f}) add(s, join("soft_cap_", cap), {.soft_cap = cap});
    add(s, "window_37_soft_cap_3_scale", {.scale = 0.5f, .window = 37, .soft_cap = 3});
  }
  // A NaN or an infinity at position 66: queries from 66 + window on do not attend to it, earlier ones do.
  for (double value : {double(NAN), double(INFINITY)})
    for (int64_t w : {12, 13, 15, 40}) {
      const Fill odd = sprinkle(normal(), 90 * 2 * 16, 66 * 2 * 16 + 3, value);
      add({{60}, 25, 90, 4, 2, 16}, join("window_", w, "_", value), {.window = w}, false, odd);
      for (int64_t start : {66, 77, 78, 79, 80, 89})
        if (start - w < 66 + 20) add({{start}, 1, 90, 4, 2, 16}, join("window_", w, "_", value), {.window = w}, false, odd);
    }
}

// With lse, which attention sinks need.
void add_lse(Registry& registry, DType dtype) {
  for (const Size& s : {Size{{5}, 1, 16, 4, 2, 8}, Size{{1500, 30}, 1, 1600, 9, 3, 64}, Size{{40}, 1, 41, 5, 1, 48},
                        Size{{505}, 9, 520, 4, 2, 16}, Size{{700}, 40, 740, 4, 1, 16}})
    for (int64_t window : {0, 20})
      registry.add({"kv_attention", s.Tq == 1 ? "decode_lse" : "prefill_lse", dtype, s.name() + (window ? "/window" : ""),
                    [=] { return problem(dtype, s, false, Layout::contiguous, normal(), {.window = window}, true); }});
}

}  // namespace

void add_specs_kv_attention(Registry& registry) {
  const char* op = "kv_attention";
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto add = [&](const Size& s, const std::string& suffix, bool by_head, Layout layout, Fill values = normal(),
                         KvAttentionOptions options = {}) {
      registry.add({op, s.Tq == 1 ? "decode" : "prefill", dtype, s.name() + suffix,
                    [=] { return problem(dtype, s, by_head, layout, values, options); }});
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
    add({{70}, 1, 90, 4, 2, 20}, "/scale", false, Layout::contiguous, normal(), {.scale = 0.7f});
    for (int64_t Tq : {1, 20})
      add({{60}, Tq, 90, 4, 2, 16}, "/huge_scores", false, Layout::contiguous, normal(), {.scale = 1e11f});  // outputs are finite
    // A NaN at position 66 reaches the queries that attend to it and no others.
    add({{60}, 20, 90, 4, 2, 16}, "/nan", false, Layout::contiguous, sprinkle(normal(), 90 * 2 * 16, 66 * 2 * 16 + 3, NAN));
    add({{60}, 20, 90, 4, 2, 16}, "/infinity", false, Layout::contiguous, sprinkle(normal(), 90 * 2 * 16, 66 * 2 * 16 + 3, INFINITY));
    add({{80}, 1, 90, 4, 2, 16}, "/nan", false, Layout::contiguous, sprinkle(normal(), 90 * 2 * 16, 66 * 2 * 16 + 3, NAN));
    add_lse(registry, dtype);
    add_options(registry, dtype);
    add_pages(registry, dtype);
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
