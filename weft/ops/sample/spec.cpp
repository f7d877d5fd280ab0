#include <cmath>

#include "weft/ops/sample/sample.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

constexpr const char* kOp = SampleArgs::kOp;

Problem problem(int64_t R, int64_t V, Fill fill, Layout layout = Layout::contiguous) {
  Problem p;
  p.input("logits", DType::f32, {R, V}, std::move(fill), layout).output("ids", DType::i32, {R});
  p.launches<SampleArgs>(sample);
  p.reference = [=](Truth& t) {
    for (int64_t r = 0; r < R; ++r) {
      int64_t best = 0, bad = V;
      for (int64_t i = V; i-- > 0;) {
        const double x = t["logits"][r * V + i];
        if (x >= t["logits"][r * V + best]) best = i;
        if (!(x < HUGE_VAL)) bad = i;
      }
      const bool none = bad == V && t["logits"][r * V + best] == -HUGE_VAL;
      t["ids"].expect(r, bad < V ? double(-1 - bad) : none ? double(-1 - V) : double(best), 0, 0);
    }
  };
  return p;
}

}  // namespace

void add_specs_sample(Registry& registry) {
  const auto add = [&](const std::string& name, int64_t R, int64_t V, const Fill& fill, Layout layout = Layout::contiguous) {
    registry.add({kOp, "forward", DType::f32, join(dims({R, V}), name), [=] { return problem(R, V, fill, layout); }});
  };
  for (int64_t V : {1, 2, 31, 257, 4097, 49152}) add("", 3, V, normal());
  add("/padded", 5, 1000, normal(), Layout::padded_rows);
  add("/ties", 7, 5000, ids(4));
  add("/negative_ties", 7, 5000, [](PhiloxStream& s, int64_t i) { return -1 - ids(3)(s, i); });
  add("/zeros", 2, 300, listed({-0.0, 0.0, -1.0}));
  add("/nan", 3, 700, sprinkle(normal(), 1000, 17, std::nan("")));
  add("/inf", 3, 700, sprinkle(normal(), 1000, 699, HUGE_VAL));
  add("/minus_inf", 3, 700, sprinkle(normal(), 2, 0, -HUGE_VAL));
  add("/all_minus_inf", 2, 700, constant(-HUGE_VAL));
  registry.bench_gpu({kOp, "forward", DType::f32, "1x128256", [] { return problem(1, 128256, normal()); }});
  registry.bench_gpu({kOp, "forward", DType::f32, "64x128256", [] { return problem(64, 128256, normal()); }});
  registry.rejects(kOp, "no_logits", [](Device& d) { sample(zeros(d, {2, 0})); });
  registry.rejects(kOp, "rank", [](Device& d) { sample(zeros(d, {5})); });
  registry.rejects(kOp, "ids_of_other_rows", [](Device& d) {
    const Tensor logits = zeros(d, {2, 5}), ids = zeros(d, {3}, DType::i32);
    sample(d.stream(), {.logits = logits.view(), .ids = ids.mut_view()});
  });
}

}  // namespace weft::spec
