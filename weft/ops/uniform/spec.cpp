#include "weft/ops/uniform/uniform.h"

#include <cmath>

#include "weft/base/philox.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

// Any 32-bit words: a key and a step with high halves.
Fill words() { return ids(int64_t(1) << 32); }

// Three f32 roundings in a written order: the bits are known, so the bound is 0.
Problem drawn(Shape shape, uint32_t site, float low, float high) {
  Problem p;
  p.input("state", DType::u32, {4}, words()).output("out", DType::f32, shape);
  p.launches<UniformArgs>(weft::uniform, [=](UniformArgs& a) { a.site = site, a.low = low, a.high = high; });
  p.reference = [=](Truth& t) {
    const auto word = [&](int i) { return uint32_t(t["state"][i]); };
    for (int64_t i = 0; i < t["out"].size(); ++i) {
      const uint32_t bits = philox({uint32_t(i / 4), site, word(2), word(3)}, {word(0), word(1)})[size_t(i % 4)];
      const double product = float(double(unit_float(bits)) * double(float(double(high) - double(low))));
      t["out"].v[size_t(i)] = float(product + double(low));
    }
  };
  return p;
}

Problem advanced(std::vector<double> before, std::vector<double> after) {
  Problem p;
  p.in_place("state", DType::u32, {4}, listed(before));
  p.launches<AdvanceStateArgs>(advance_state);
  p.reference = [=](Truth& t) { t[result("state")].v = after; };
  return p;
}

}  // namespace

void add_specs_uniform(Registry& registry) {
  const std::string op = "uniform";
  for (Shape s : {Shape{}, Shape{1}, Shape{3}, Shape{63}, Shape{64}, Shape{65}, Shape{7, 257}, Shape{0, 3}, Shape{70001}}) {
    registry.add({op, "unit", DType::f32, join(s), [=] { return drawn(s, 0, 0, 1); }});
    registry.add({op, "range", DType::f32, join(s), [=] { return drawn(s, 0xdeadbeefu, -0.3f, 1.7f); }});
  }
  registry.add({op, "range", DType::f32, "one_value", [] { return drawn({9}, 1, 2.5f, 2.5f); }});
  registry.add({op, "advance", DType::u32, "step", [] { return advanced({7, 8, 0, 0}, {7, 8, 1, 0}); }});
  registry.add({op, "advance", DType::u32, "carry", [] { return advanced({7, 8, 4294967295.0, 3}, {7, 8, 0, 4}); }});
  registry.add({op, "advance", DType::u32, "wrap", [] { return advanced({7, 8, 4294967295.0, 4294967295.0}, {7, 8, 0, 0}); }});
  registry.bench({op, "unit", DType::f32, "67108864", [] { return drawn({67108864}, 0, 0, 1); }});
  registry.rejects(op, "state_length", [](Device& d) { uniform(d, {8}, zeros(d, {3}, DType::u32), 0); });
  registry.rejects(op, "state_dtype", [](Device& d) { uniform(d, {8}, zeros(d, {4}, DType::i32), 0); });
  registry.rejects(op, "undefined_state", [](Device& d) { uniform(d, {8}, Tensor(), 0); });
  registry.rejects(op, "reversed_range", [](Device& d) { uniform(d, {8}, random_state(d, 1), 0, 1, 0); });
  registry.rejects(op, "infinite_range", [](Device& d) { uniform(d, {8}, random_state(d, 1), 0, 0, INFINITY); });
  registry.rejects(op, "nan_range", [](Device& d) { uniform(d, {8}, random_state(d, 1), 0, NAN, 1); });
  registry.rejects(op, "strided_output", [](Device& d) {
    const Tensor state = random_state(d, 1), out = zeros(d, {8, 4}).part(1, 0, 3);
    uniform(d.stream(), {state.view(), 0, out.mut_view(), 0, 1});
  });
  registry.rejects(op, "advance_undefined", [](Device&) { advance_random_state(Tensor()); });
  registry.rejects(op, "negative_count", [](Device&) { normal_values(-1, 0, 1); });
}

}  // namespace weft::spec
