#include "weft/ops/gradient_norm/gradient_norm.h"

#include <cmath>

#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Grad {
  DType dtype;
  Shape shape;
};

std::string name_of(size_t i) { return join("g", i); }

// A square rounds once; a piece of n is a chain of n / 64 additions per lane and six levels of tree, then the pieces
// are a chain. The root halves the relative error and rounds once; the sum and the quotient of clip round once more.
Problem clipped(std::vector<Grad> grads, float max_norm, Fill fill = normal()) {
  Problem p;
  for (size_t i = 0; i < grads.size(); ++i) p.input(name_of(i), grads[i].dtype, grads[i].shape, fill);
  p.output("norm", DType::f32, {}).output("clip", DType::f32, {1});
  const auto args = [=](const Bound& b) {
    GradientNormArgs a{{}, max_norm, b.mut("norm"), b.mut("clip")};
    for (size_t i = 0; i < grads.size(); ++i) a.grads.push_back(b.view(name_of(i)));
    return a;
  };
  p.run = [=](Stream& stream, const Bound& b) { gradient_norm(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    double squares = 0, longest = 0, pieces = 0;
    for (size_t i = 0; i < grads.size(); ++i) {
      const Array& g = t[name_of(i)];
      for (double value : g.v) squares += value * value;
      longest = std::max(longest, std::min(double(g.size()), double(kNormPiece)));
      pieces += double(norm_pieces(int64_t(g.size())));
    }
    const double norm = std::sqrt(squares), roundings = (1 + longest / 64 + 8 + pieces) / 2 + 1;
    const double ratio = max_norm / (norm + double(1e-6f)), clip = max_norm <= 0 || ratio > 1 ? 1 : ratio;
    t["norm"].expect(0, norm, norm, roundings);
    t["clip"].expect(0, clip, clip, roundings + 2);
  };
  return p;
}

}  // namespace

void add_specs_gradient_norm(Registry& registry) {
  const std::string op = "gradient_norm";
  const DType f32 = DType::f32, bf16 = DType::bf16;
  const auto add = [&](const std::string& variant, DType dtype, const std::string& name, std::vector<Grad> grads, float max_norm,
                       Fill fill = normal()) { registry.add({op, variant, dtype, name, [=] { return clipped(grads, max_norm, fill); }}); };
  for (DType dtype : {f32, bf16}) {
    for (Shape s : {Shape{}, Shape{1}, Shape{17}, Shape{3, 257}, Shape{32768}, Shape{32769}, Shape{65536}, Shape{65537}, Shape{3, 50000},
                    Shape{0, 4}}) {
      add("clipped", dtype, join(s), {{dtype, s}}, 1);
      add("unclipped", dtype, join(s), {{dtype, s}}, 0);
    }
    add("clipped", dtype, "many", {{dtype, {7, 9}}, {dtype, {0}}, {f32, {131}}, {dtype, {2, 40000}}, {bf16, {16}}, {dtype, {}}}, 0.5f);
    add("clipped", dtype, "below_the_bound", {{dtype, {7, 9}}}, 1e6f);
    add("clipped", dtype, "zeros", {{dtype, {7, 9}}}, 1, constant(0));
    add("clipped", dtype, "nan", {{dtype, {7, 9}}}, 1, sprinkle(normal(), 9, 1, NAN));
    add("clipped", dtype, "infinity", {{dtype, {7, 9}}}, 1, sprinkle(normal(), 9, 1, INFINITY));
    registry.bench({op, "clipped", dtype, "10747392", [=] { return clipped({{dtype, {10747392}}}, 1); }});
  }
  add("clipped", f32, "none", {}, 1);
  registry.rejects(op, "undefined", [](Device& d) { gradient_norm(d, std::vector<Tensor>{zeros(d, {3}), Tensor()}, 1); });
  registry.rejects(op, "integers", [](Device& d) { gradient_norm(d, std::vector<Tensor>{zeros(d, {3}, DType::i32)}, 1); });
  registry.rejects(op, "strided", [](Device& d) { gradient_norm(d, std::vector<Tensor>{zeros(d, {3, 4}).part(1, 0, 3)}, 1); });
  registry.rejects(op, "nan_max_norm", [](Device& d) { gradient_norm(d, std::vector<Tensor>{zeros(d, {3})}, NAN); });
  registry.rejects(op, "gradient_wanted", [](Device& d) { gradient_norm(d, std::vector<Tensor>{zeros(d, {3}).set_requires_grad()}, 1); });
  registry.rejects(op, "norm_size", [](Device& d) {
    const Tensor norm = zeros(d, {2}), clip = zeros(d, {});
    gradient_norm(d.stream(), {{}, 1, norm.mut_view(), clip.mut_view()});
  });
  registry.rejects(op, "clip_dtype", [](Device& d) {
    const Tensor norm = zeros(d, {}), clip = zeros(d, {}, DType::bf16);
    gradient_norm(d.stream(), {{}, 1, norm.mut_view(), clip.mut_view()});
  });
}

}  // namespace weft::spec
