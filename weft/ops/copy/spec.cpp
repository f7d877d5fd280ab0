#include "weft/ops/copy/copy.h"

#include <cmath>

#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16};

// Axis k of the result is axis axes[k] of the view.
View permuted(const View& view, const std::vector<int>& axes) {
  View out = view;
  for (size_t k = 0; k < axes.size(); ++k) {
    out.shape[int(k)] = view.shape[axes[k]];
    out.strides[int(k)] = view.strides[axes[k]];
  }
  return out;
}

// Position, in the row-major order of `shape`, of element i of the permuted row-major order.
int64_t source_of(int64_t i, const Shape& shape, const std::vector<int>& axes) {
  const Strides strides = contiguous_strides(shape);
  int64_t at = 0;
  for (size_t k = axes.size(); k-- > 0;) {
    at += i % shape[axes[k]] * strides[axes[k]];
    i /= shape[axes[k]];
  }
  return at;
}

// A cast rounds once and a move not at all: the expected bits are known, so the bound is 0.
void exactly(Array& array, int64_t i, double value) {
  array.v[size_t(i)] = round_to(array.dtype, value);
  array.bound[size_t(i)] = 0;
}

// Ties of bf16 and f16, the ends of their ranges, subnormals, zeros of both signs, infinities and NaN among the rest.
Fill awkward(DType dtype) {
  if (!is_float(dtype)) return uniform(0, dtype == DType::u8 ? 256 : 2e9);
  const std::vector<double> special = {1 + 0x1p-9, 1 + 3 * 0x1p-9, 1 + 0x1p-8, 1 + 0x1p-11, 1 + 3 * 0x1p-11, 65504,     65519,
                                       65520,      70000,          -1e30,      3.4e38,      0x1p-24,         0x1p-25,   3 * 0x1p-25,
                                       5e-6,       1e-40,          -0.0,       0.0,         INFINITY,        -INFINITY, NAN};
  return [=](PhiloxStream& random, int64_t i) { return i % 3 ? random.normal() : special[size_t(i / 3) % special.size()]; };
}

enum class Side { from, to };

// The axes of one side in another order.
Problem permuted_copy(DType from, DType to, Shape shape, std::vector<int> axes, Side side, Layout layout = Layout::contiguous) {
  Shape moved = shape;
  for (size_t k = 0; k < axes.size(); ++k) moved[int(k)] = shape[axes[k]];
  Problem p;
  p.input("x", from, side == Side::from ? shape : moved, awkward(from), layout).output("y", to, side == Side::from ? moved : shape, layout);
  const auto args = [=](const Bound& b) {
    return side == Side::from ? CopyArgs{permuted(b.view("x"), axes), b.mut("y")}
                              : CopyArgs{b.view("x"), MutView{permuted(b.view("y"), axes)}};
  };
  p.run = [=](Stream& stream, const Bound& b) { copy(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const int64_t other = source_of(i, shape, axes);
      side == Side::from ? exactly(t["y"], i, t["x"][other]) : exactly(t["y"], other, t["x"][i]);
    }
  };
  return p;
}

std::vector<int> straight(int rank) {
  std::vector<int> axes;
  for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

Problem plain(DType from, DType to, Shape shape, Layout layout) {
  return permuted_copy(from, to, shape, straight(shape.rank()), Side::from, layout);
}

// x [C], repeated over R rows; or x [R], each element repeated along a row.
Problem broadcast(DType from, DType to, int64_t R, int64_t C, bool along_rows) {
  Problem p;
  p.input("x", from, {along_rows ? R : C}, normal()).output("y", to, {R, C});
  p.run = [=](Stream& stream, const Bound& b) {
    View x = b.view("x");
    x.shape = Shape{R, C};
    x.strides = along_rows ? Strides{1, 0} : Strides{0, 1};
    copy(stream, {.from = x, .to = b.mut("y")});
  };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < R * C; ++i) exactly(t["y"], i, t["x"][along_rows ? i / C : i % C]);
  };
  return p;
}

// The rules of contiguous, cast and slice, each handed dy as a backward pass would.
enum class Rule { contiguous, cast, slice };

Problem rule(Rule which) {
  constexpr int64_t R = 5, C = 19, kStart = 3, kStop = 14;
  const int64_t width = which == Rule::slice ? kStop - kStart : C;
  Problem p;
  p.input("x", DType::f32, {R, C}, normal(), Layout::padded_rows).input("dy", DType::f32, {R, width}, normal());
  p.output("y", DType::f32, {R, width}).output("dx", DType::f32, {R, C});
  p.run = [=](Stream&, const Bound& b) {
    Tensor x = b.tensor("x"), dy = b.tensor("dy");
    x.set_requires_grad();
    const Tensor y = which == Rule::slice ? slice(x, 1, kStart, kStop) : which == Rule::cast ? cast(x, DType::bf16) : contiguous(x);
    check(y.requires_grad(), "check", "the op recorded nothing");
    const Tensor dx = y.node()->backward({{which == Rule::cast ? cast(dy, DType::bf16) : dy}, {true}}).at(0);
    copy(y.detach(), b.tensor("y"));
    copy(dx, b.tensor("dx"));
  };
  p.reference = [=](Truth& t) {
    const DType through = which == Rule::cast ? DType::bf16 : DType::f32;
    for (int64_t r = 0; r < R; ++r) {
      for (int64_t c = 0; c < C; ++c) exactly(t["dx"], r * C + c, 0);
      for (int64_t k = 0; k < width; ++k) {
        const int64_t i = r * C + k + (which == Rule::slice ? kStart : 0);
        exactly(t["y"], r * width + k, round_to(through, t["x"][i]));
        exactly(t["dx"], i, round_to(through, t["dy"][r * width + k]));
      }
    }
  };
  return p;
}

void add_rejections(Registry& registry) {
  const std::string op = "copy";
  registry.rejects(op, "shape", [](Device& d) { copy(Tensor::empty(d, {2, 8}), Tensor::empty(d, {8, 2})); });
  registry.rejects(op, "rank", [](Device& d) { copy(Tensor::empty(d, {8}), Tensor::empty(d, {1, 8})); });
  registry.rejects(op, "integer_to_float", [](Device& d) { copy(Tensor::empty(d, {8}, DType::i32), Tensor::empty(d, {8})); });
  registry.rejects(op, "between_integers", [](Device& d) { copy(Tensor::empty(d, {8}, DType::i32), Tensor::empty(d, {8}, DType::u32)); });
  registry.rejects(op, "undefined_from", [](Device& d) { copy(Tensor(), Tensor::empty(d, {8})); });
  registry.rejects(op, "undefined_to", [](Device& d) { copy(Tensor::empty(d, {8}), Tensor()); });
  registry.rejects(op, "repeated_destination", [](Device& d) {
    Tensor from = Tensor::empty(d, {4, 8}), to = Tensor::empty(d, {8});
    MutView view = to.mut_view();
    view.shape = Shape{4, 8};
    view.strides = Strides{0, 1};
    copy(d.stream(), {.from = from.view(), .to = view});
  });
  registry.rejects(op, "gradient_wanted", [](Device& d) { copy(zeros(d, {8}).set_requires_grad(), Tensor::empty(d, {8})); });
  registry.rejects(op, "cast_to_integer", [](Device& d) { cast(Tensor::empty(d, {8}), DType::u8); });
  registry.rejects(op, "slice_past_end", [](Device& d) { slice(Tensor::empty(d, {8}), 0, 4, 9); });
  registry.rejects(op, "slice_axis", [](Device& d) { slice(Tensor::empty(d, {8}), 1, 0, 1); });
  registry.rejects(op, "contiguous_undefined", [](Device&) { contiguous(Tensor()); });
}

}  // namespace

void add_specs_copy(Registry& registry) {
  const std::string op = "copy";
  const auto add = [&](const std::string& variant, DType dtype, const std::string& name, std::function<Problem()> make) {
    registry.add({op, variant, dtype, name, std::move(make)});
  };
  for (DType from : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u32, DType::u8})
    for (DType to : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u32, DType::u8}) {
      if (from != to && !(is_float(from) && is_float(to))) continue;
      const std::string variant = from == to ? "move" : "to_" + std::string(name(to));
      for (Shape s : {Shape{}, Shape{1}, Shape{15}, Shape{65}, Shape{7, 257}, Shape{3, 0}, Shape{2, 33000}})
        add(variant, from, join(s), [=] { return plain(from, to, s, Layout::contiguous); });
      for (Shape s : {Shape{3, 17}, Shape{5, 7, 33}})
        add(variant, from, join(s, "/padded"), [=] { return plain(from, to, s, Layout::padded_rows); });
      for (Side side : {Side::from, Side::to}) {
        const std::string suffix = side == Side::from ? "/permuted_from" : "/permuted_to";
        add(variant, from, "37x41" + suffix, [=] { return permuted_copy(from, to, {37, 41}, {1, 0}, side); });
        add(variant, from, "2x3x5x16" + suffix,
            [=] { return permuted_copy(from, to, {2, 3, 5, 16}, {0, 2, 1, 3}, side, Layout::padded_rows); });
        add(variant, from, "3x2x1x4x5x6" + suffix, [=] { return permuted_copy(from, to, {3, 2, 1, 4, 5, 6}, {5, 2, 0, 4, 1, 3}, side); });
      }
      for (bool along_rows : {false, true})
        add(variant, from, along_rows ? "9x40/broadcast_columns" : "9x40/broadcast_rows",
            [=] { return broadcast(from, to, 9, 40, along_rows); });
    }
  add("contiguous_rule", DType::f32, "5x19", [] { return rule(Rule::contiguous); });
  add("cast_rule", DType::f32, "5x19", [] { return rule(Rule::cast); });
  add("slice_rule", DType::f32, "5x19", [] { return rule(Rule::slice); });
  for (DType from : kFloats) {
    registry.bench({op, "move", from, "8192x4096", [=] { return plain(from, from, {8192, 4096}, Layout::contiguous); }});
    registry.bench(
        {op, "heads", from, "8x1024x12x64", [=] { return permuted_copy(from, from, {8, 1024, 12, 64}, {0, 2, 1, 3}, Side::from); }});
  }
  registry.bench({op, "to_bf16", DType::f32, "8192x4096", [] { return plain(DType::f32, DType::bf16, {8192, 4096}, Layout::contiguous); }});
  registry.bench({op, "to_f32", DType::bf16, "8192x4096", [] { return plain(DType::bf16, DType::f32, {8192, 4096}, Layout::contiguous); }});
  add_rejections(registry);
}

}  // namespace weft::spec
