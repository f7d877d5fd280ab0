#include "weft/ops/kv_append/kv_append.h"

#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Size {
  std::vector<int64_t> start;  // one per sequence
  int64_t T, capacity, H, D;
  int64_t page = 0;  // positions per page; 0: not paged

  int64_t B() const { return int64_t(start.size()); }
  int64_t pages() const { return capacity / page; }     // per sequence
  int64_t stored() const { return B() * pages() + 1; }  // in the cache; no sequence uses page 0
  int64_t page_of(int64_t b, int64_t n) const { return stored() - 1 - (b * pages() + n); }
  int64_t row(int64_t b, int64_t t) const { return page > 0 ? page_of(b, t / page) * page + t % page : b * capacity + t; }
  std::string name() const {
    const std::string of = join(dims({B(), T, H, D}), "/after_", start.empty() ? 0 : start.back(), "_of_", capacity);
    return page > 0 ? join(of, "/pages_of_", page) : of;
  }
};

// Exact: the new tokens where they belong, and every other position as it was.
void append(Truth& t, const Size& s, const char* fresh, const char* cache) {
  const int64_t row = s.H * s.D;
  const Array before = t[cache];
  Array& after = t[result(cache)];
  for (int64_t i = 0; i < before.size(); ++i) after.expect_within(i, before[i], 0);
  for (int64_t b = 0; b < s.B(); ++b)
    for (int64_t i = 0; i < s.T * row; ++i)
      after.expect_within(s.row(b, s.start[size_t(b)] + i / row) * row + i % row, t[fresh][b * s.T * row + i], 0);
  for (double& bound : after.bound) bound = 0;
}

Problem problem(DType dtype, Size s, Layout layout = Layout::contiguous) {
  Problem p;
  for (const char* name : {"k", "v"}) p.input(name, dtype, {s.B(), s.T, s.H, s.D}, normal(), layout);
  const Shape stored{s.page > 0 ? s.stored() : s.B(), s.page > 0 ? s.page : s.capacity, s.H, s.D};
  for (const char* name : {"k_cache", "v_cache"}) p.in_place(name, dtype, stored, normal(), layout);
  if (s.page > 0)
    p.input("pages", DType::i32, {s.B(), s.pages()},
            [=](PhiloxStream&, int64_t i) { return double(s.page_of(i / s.pages(), i % s.pages())); });
  p.input("start", DType::i32, {s.B()}, [=](PhiloxStream&, int64_t b) { return double(s.start[size_t(b)]); });
  p.launches<KvAppendArgs>(kv_append);
  p.reference = [=](Truth& t) {
    append(t, s, "k", "k_cache");
    append(t, s, "v", "v_cache");
  };
  return p;
}

void add_rejections(Registry& registry) {
  const auto reject = [&](const char* name, Shape k, Shape v, Shape cache, std::vector<int32_t> start) {
    registry.rejects("kv_append", name, [=](Device& d) {
      const Tensor keys = Tensor::empty(d, k), values = Tensor::empty(d, v), k_cache = Tensor::empty(d, cache),
                   v_cache = Tensor::empty(d, cache);
      const Tensor at = Tensor::from_host(d, {int64_t(start.size())}, start);
      kv_append(d.stream(),
                {.k = keys.view(), .v = values.view(), .start = at.view(), .k_cache = k_cache.mut_view(), .v_cache = v_cache.mut_view()});
    });
  };
  const auto reject_pages = [&](const char* name, int64_t page, std::vector<int32_t> pages) {
    registry.rejects("kv_append", name, [=](Device& d) {
      const Tensor fresh = Tensor::empty(d, {1, 3, 2, 8}), cache = Tensor::empty(d, {3, page, 2, 8}),
                   other = Tensor::empty(d, {3, page, 2, 8});
      const Tensor at = Tensor::from_host(d, {1}, std::vector<int32_t>{63}),
                   table = Tensor::from_host(d, {1, int64_t(pages.size())}, pages);
      kv_append(d.stream(), {.k = fresh.view(),
                             .v = fresh.view(),
                             .start = at.view(),
                             .k_cache = cache.mut_view(),
                             .v_cache = other.mut_view(),
                             .pages = table.view()});
    });
  };
  reject_pages("page_size", 72, {0, 1});
  reject_pages("page_past_the_cache", 64, {0, 3});
  reject_pages("page_negative", 64, {0, -1});
  reject_pages("past_the_pages", 64, {0});
  reject("past_the_cache", {2, 3, 2, 8}, {2, 3, 2, 8}, {2, 16, 2, 8}, {13, 14});
  reject("negative_start", {2, 3, 2, 8}, {2, 3, 2, 8}, {2, 16, 2, 8}, {0, -1});
  reject("more_tokens_than_capacity", {1, 17, 2, 8}, {1, 17, 2, 8}, {1, 16, 2, 8}, {0});
  reject("value_shape", {1, 3, 2, 8}, {1, 3, 1, 8}, {1, 16, 2, 8}, {0});
  reject("cache_of_other_heads", {1, 3, 2, 8}, {1, 3, 2, 8}, {1, 16, 4, 8}, {0});
  reject("starts_of_other_batch", {2, 3, 2, 8}, {2, 3, 2, 8}, {2, 16, 2, 8}, {0});
  reject("rank", {3, 2, 8}, {3, 2, 8}, {1, 16, 2, 8}, {0});
}

}  // namespace

void add_specs_kv_append(Registry& registry) {
  const char* op = "kv_append";
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (const Size& s :
         {Size{{0}, 1, 1, 1, 1}, Size{{5}, 1, 16, 2, 8}, Size{{63, 64, 0}, 1, 70, 2, 64}, Size{{0, 3}, 7, 10, 3, 33},
          Size{{11}, 130, 141, 2, 80}, Size{{0, 4095, 65535, 70000}, 2, 70002, 1, 2},  // starts that 12 and 16 bits do not hold
          Size{{}, 3, 8, 1, 8}, Size{{4}, 0, 8, 1, 8}, Size{{0}, 1, 64, 1, 1, 64}, Size{{63, 64, 0, 130}, 1, 192, 2, 64, 64},
          Size{{50, 3}, 130, 192, 3, 33, 64}, Size{{120}, 100, 256, 2, 20, 128}})
      registry.add({op, "forward", dtype, s.name(), [=] { return problem(dtype, s); }});
    const Size padded{{70, 3}, 11, 90, 2, 20};
    registry.add({op, "forward", dtype, padded.name() + "/padded", [=] { return problem(dtype, padded, Layout::padded_rows); }});
    for (const Size& c : {Size{{11}, 131, 150, 3, 33}, Size{{3, 5}, 200, 256, 4, 64}})
      registry.count({op, "forward", dtype, c.name(), [=] { return problem(dtype, c); }});
    const Size step{{1023, 500, 7, 64}, 1, 1024, 3, 64};
    registry.bench({op, "forward", dtype, step.name(), [=] { return problem(dtype, step); }});
  }
  add_rejections(registry);
}

}  // namespace weft::spec
