#include <cmath>

#include "weft/ops/fill/fill.h"
#include "weft/ops/gradient_squares/gradient_squares.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Grad {
  DType dtype;
  Shape shape;
};

std::string name_of(size_t i) { return join("g", i); }

// Of each tensor of one axis the elements from `skipped` on.
Problem pieces_of(std::vector<Grad> grads, Fill fill = normal(), int64_t skipped = 0) {
  Problem p;
  int64_t pieces = 0;
  for (size_t i = 0; i < grads.size(); ++i) {
    p.input(name_of(i), grads[i].dtype, grads[i].shape, fill);
    pieces += norm_pieces(grads[i].shape.numel() - skipped);
  }
  p.output("squares", DType::f32, {pieces});
  const auto args = [=](const Bound& b) {
    GradientSquaresArgs a{{}, b.mut("squares")};
    for (size_t i = 0; i < grads.size(); ++i) {
      const View whole = b.view(name_of(i));
      a.grads.push_back(skipped > 0 ? part(whole, 0, skipped, whole.shape[0]) : whole);
    }
    return a;
  };
  p.run = [=](Stream& stream, const Bound& b) { gradient_squares(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    int64_t piece = 0;
    for (size_t i = 0; i < grads.size(); ++i) {
      const Array& g = t[name_of(i)];
      const int64_t size = int64_t(g.size());
      for (int64_t first = skipped; first < size; first += kNormPiece, ++piece) {
        const int64_t last = std::min(size, first + kNormPiece);
        double sum = 0;
        for (int64_t at = first; at < last; ++at) sum += g[at] * g[at];
        // On the CPU a square rounds once, then a chain of n / 64 additions in each lane and six levels of tree; on GPUs a chain of
        // n / 256 fused additions in each thread, at most a vector of eight more, and eight levels of tree.
        const double n = double(last - first);
        t["squares"].expect(piece, sum, sum, std::max(n / 64 + 8, n / 256 + 16));
      }
    }
  };
  return p;
}

}  // namespace

void add_specs_gradient_squares(Registry& registry) {
  const std::string op = "gradient_squares";
  const DType f32 = DType::f32, bf16 = DType::bf16;
  const auto add = [&](const std::string& variant, DType dtype, const std::string& name, std::vector<Grad> grads, Fill fill = normal(),
                       int64_t skipped = 0) { registry.add({op, variant, dtype, name, [=] { return pieces_of(grads, fill, skipped); }}); };
  for (DType dtype : {f32, bf16}) {
    for (Shape s : {Shape{}, Shape{1}, Shape{17}, Shape{3, 257}, Shape{32768}, Shape{32769}, Shape{65537}, Shape{3, 50000}, Shape{0, 4}})
      add("whole", dtype, join(s), {{dtype, s}});
    add("whole", dtype, "many", {{dtype, {7, 9}}, {dtype, {0}}, {f32, {131}}, {dtype, {2, 40000}}, {bf16, {16}}, {dtype, {}}});
    add("whole", dtype, "more_than_a_launch_takes", std::vector<Grad>(101, {dtype, {33}}));
    add("whole", dtype, "zeros", {{dtype, {7, 9}}}, constant(0));
    add("whole", dtype, "nan", {{dtype, {40001}}}, sprinkle(normal(), 40001, 40000, NAN));
    add("whole", dtype, "infinity", {{dtype, {40001}}}, sprinkle(normal(), 40001, 3, INFINITY));
    for (int64_t skipped : {1, 5, 65536})
      add("from_an_element_on", dtype, join(skipped), {{dtype, {101000}}, {dtype, {65540}}}, normal(), skipped);
    registry.bench({op, "whole", dtype, "10747392", [=] { return pieces_of({{dtype, {10747392}}}); }});
  }
  add("whole", f32, "none", {});
  const auto rejects = [&](const std::string& name, auto make) {
    registry.rejects(op, name, [=](Device& d) { gradient_squares(d, std::vector<Tensor>{zeros(d, {3}), make(d)}); });
  };
  rejects("undefined", [](Device&) { return Tensor(); });
  rejects("integers", [](Device& d) { return zeros(d, {3}, DType::i32); });
  rejects("strided", [](Device& d) { return zeros(d, {3, 4}).part(1, 0, 3); });
  rejects("gradient_wanted", [](Device& d) { return zeros(d, {3}).set_requires_grad(); });
  const auto rejects_squares = [&](const std::string& name, Shape shape, DType dtype) {
    registry.rejects(op, name, [=](Device& d) {
      const Tensor grad = zeros(d, {kNormPiece + 1}), squares = zeros(d, shape, dtype);
      gradient_squares(d.stream(), {.grads = {grad.view()}, .squares = squares.mut_view()});
    });
  };
  rejects_squares("too_few_pieces", {1}, f32);
  rejects_squares("too_many_pieces", {3}, f32);
  rejects_squares("squares_of_two_axes", {1, 2}, f32);
  rejects_squares("squares_dtype", {2}, bf16);
}

}  // namespace weft::spec
