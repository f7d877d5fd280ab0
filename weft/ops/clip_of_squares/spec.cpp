#include <cmath>

#include "weft/ops/clip_of_squares/clip_of_squares.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

// The sum of P pieces rounds at most P times in any order. The root halves the relative error and rounds once; the sum and the
// quotient of clip round once more.
Problem clipped(int64_t P, float max_norm, Fill fill = uniform(0, 2)) {
  Problem p;
  p.input("squares", DType::f32, {P}, fill).output("norm", DType::f32, {}).output("clip", DType::f32, {1});
  p.launches<ClipOfSquaresArgs>(clip_of_squares, [=](ClipOfSquaresArgs& a) { a.max_norm = max_norm; });
  p.reference = [=](Truth& t) {
    double sum = 0;
    for (double piece : t["squares"].v) sum += piece;
    const double norm = std::sqrt(sum), roundings = double(P) / 2 + 1;
    const double ratio = max_norm / (norm + double(1e-6f)), clip = max_norm <= 0 || ratio > 1 ? 1 : ratio;
    t["norm"].expect(0, norm, norm, roundings);
    t["clip"].expect(0, clip, clip, roundings + 2);
  };
  return p;
}

}  // namespace

void add_specs_clip_of_squares(Registry& registry) {
  const std::string op = "clip_of_squares";
  const DType f32 = DType::f32;
  const auto add = [&](const std::string& variant, const std::string& name, int64_t P, float max_norm, Fill fill = uniform(0, 2)) {
    registry.add({op, variant, f32, name, [=] { return clipped(P, max_norm, fill); }});
  };
  for (int64_t P : {0, 1, 2, 17, 255, 256, 257, 1024, 1025, 4099}) {
    add("clipped", join(P), P, 0.5f);
    add("unclipped", join(P), P, 0);
  }
  add("unclipped", "negative_bound", 17, -1);
  add("clipped", "below_the_bound", 17, 1e6f);
  add("clipped", "infinite_bound", 17, INFINITY);
  add("clipped", "zeros", 17, 1, constant(0));
  // A norm near 1e-6, where the sum with it shows; and a sum near the largest f32.
  add("clipped", "tiny", 3, 1e-7f, constant(1e-12));
  add("clipped", "huge", 3, 1, constant(1e38));
  for (double value : {double(NAN), double(INFINITY)})
    for (int64_t at : {0, 1099}) add("clipped", join(value, "_at_", at), 1100, 1, sprinkle(uniform(0, 2), 1100, at, value));
  // As many pieces as models of 124 million and of 8 billion parameters have.
  for (int64_t P : {3797, 250000}) registry.bench({op, "clipped", f32, join(P), [=] { return clipped(P, 1); }});
  registry.rejects(op, "undefined", [](Device&) { clip_of_squares(Tensor(), 1); });
  registry.rejects(op, "bf16", [](Device& d) { clip_of_squares(zeros(d, {3}, DType::bf16), 1); });
  registry.rejects(op, "two_axes", [](Device& d) { clip_of_squares(zeros(d, {3, 2}), 1); });
  registry.rejects(op, "strided", [](Device& d) {
    const Tensor squares = zeros(d, {6}), norm = zeros(d, {}), clip = zeros(d, {});
    View every_second = squares.view();
    every_second.shape[0] = 3;
    every_second.strides[0] = 2;
    clip_of_squares(d.stream(), {.squares = every_second, .max_norm = 1, .norm = norm.mut_view(), .clip = clip.mut_view()});
  });
  registry.rejects(op, "nan_max_norm", [](Device& d) { clip_of_squares(zeros(d, {3}), NAN); });
  registry.rejects(op, "gradient_wanted", [](Device& d) { clip_of_squares(zeros(d, {3}).set_requires_grad(), 1); });
  const auto rejects_scalars = [&](const std::string& name, Shape norm_shape, DType clip_dtype) {
    registry.rejects(op, name, [=](Device& d) {
      const Tensor squares = zeros(d, {3}), norm = zeros(d, norm_shape), clip = zeros(d, {}, clip_dtype);
      clip_of_squares(d.stream(), {.squares = squares.view(), .max_norm = 1, .norm = norm.mut_view(), .clip = clip.mut_view()});
    });
  };
  rejects_scalars("norm_size", {2}, f32);
  rejects_scalars("clip_dtype", {}, DType::bf16);
}

}  // namespace weft::spec
