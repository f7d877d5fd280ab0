#include <cmath>

#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

// One rounding to the dtype and no arithmetic: exact.
Problem filled(DType dtype, Shape shape, double value, Layout layout, bool transposed = false) {
  Problem p;
  p.output("out", dtype, shape, layout);
  p.run = [=](Stream& stream, const Bound& b) {
    fill(stream, {.out = transposed ? b.tensor("out").permute({1, 0}).mut_view() : b.mut("out"), .value = value});
  };
  p.cost = [=](const Bound& b) { return cost(FillArgs{b.mut("out"), value}); };
  p.reference = [=](Truth& t) {
    for (double& v : t["out"].v) v = round_to(dtype, value);
  };
  return p;
}

}  // namespace

void add_specs_fill(Registry& registry) {
  const std::string op = "fill";
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u32, DType::u8}) {
    const double value = is_float(dtype) ? 0.1 : dtype == DType::u32 ? 4294967295.0 : dtype == DType::i32 ? -2147483648.0 : 255;
    for (Shape s : {Shape{}, Shape{1}, Shape{17}, Shape{3, 257}, Shape{0, 4}, Shape{2, 40000}, Shape{2, 3, 1, 5, 2, 7}})
      registry.add({op, "value", dtype, join(s), [=] { return filled(dtype, s, value, Layout::contiguous); }});
    registry.add({op, "value", dtype, "5x33/padded", [=] { return filled(dtype, {5, 33}, value, Layout::padded_rows); }});
    registry.add({op, "value", dtype, "5x33/transposed", [=] { return filled(dtype, {5, 33}, value, Layout::padded_rows, true); }});
    registry.add({op, "zero", dtype, "5x33", [=] { return filled(dtype, {5, 33}, 0, Layout::contiguous); }});
    registry.bench({op, "zero", dtype, "8192x4096", [=] { return filled(dtype, {8192, 4096}, 0, Layout::contiguous); }});
    if (!is_float(dtype)) continue;
    for (double special : {double(NAN), double(INFINITY), 1e30, 1e-7})
      registry.add({op, "value", dtype, join("3x5/", special), [=] { return filled(dtype, {3, 5}, special, Layout::contiguous); }});
  }
  registry.rejects(op, "fraction_into_integer", [](Device& d) { full(d, {3}, 0.5, DType::i32); });
  registry.rejects(op, "negative_into_unsigned", [](Device& d) { full(d, {3}, -1, DType::u32); });
  registry.rejects(op, "too_large_for_u8", [](Device& d) { full(d, {3}, 256, DType::u8); });
  registry.rejects(op, "too_large_for_i32", [](Device& d) { full(d, {3}, 2147483648.0, DType::i32); });
  registry.rejects(op, "nan_into_integer", [](Device& d) { full(d, {3}, NAN, DType::i32); });
  registry.rejects(op, "undefined", [](Device&) { fill(Tensor(), 1); });
  registry.rejects(op, "gradient_wanted", [](Device& d) { zero(zeros(d, {3}).set_requires_grad()); });
}

}  // namespace weft::spec
