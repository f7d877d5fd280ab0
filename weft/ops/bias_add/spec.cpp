#include "weft/ops/bias_add/bias_add.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

// One addition, one rounding.
Problem forward(DType dtype, DType bias, Shape shape, Layout layout, Fill fill = normal()) {
  const int64_t C = shape.back();
  Problem p;
  p.input("x", dtype, shape, fill, layout).input("bias", bias, {C}, normal()).output("y", dtype, shape, layout);
  const auto args = [=](const Bound& b) { return BiasAddArgs{b.view("x"), b.view("bias"), b.mut("y")}; };
  p.run = [=](Stream& stream, const Bound& b) { bias_add(stream, args(b)); };
  p.cost = [=](const Bound& b) { return cost(args(b)); };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < t["x"].size(); ++i) {
      const double y = t["x"][i] + t["bias"][i % C];
      t["y"].expect(i, y, y, 1);
    }
  };
  return p;
}

// The recorded rule. dbias adds R rows: in order within at most 64 chunks of at least 16 rows, then the chunks.
Problem rule(DType dtype, DType bias, int64_t R, int64_t C) {
  Problem p;
  p.input("x", dtype, {R, C}, normal()).input("bias", bias, {C}, normal()).input("dy", dtype, {R, C}, normal(), Layout::padded_rows);
  p.output("dx", dtype, {R, C}).output("dbias", DType::f32, {C});
  p.run = [=](Stream&, const Bound& b) {
    Tensor x = b.tensor("x"), w = b.tensor("bias");
    const Tensor y = bias_add(x.set_requires_grad(), w.set_requires_grad());
    const std::vector<Tensor> grads = y.node()->backward({{b.tensor("dy")}, {true, true}});
    copy(grads.at(0), b.tensor("dx"));
    copy(grads.at(1), b.tensor("dbias"));
  };
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < R * C; ++i) t["dx"].expect(i, t["dy"][i], 0, 0);
    for (int64_t c = 0; c < C; ++c) {
      double sum = 0, scale = 0;
      for (int64_t r = 0; r < R; ++r) {
        sum += t["dy"][r * C + c];
        scale += std::abs(t["dy"][r * C + c]);
      }
      t["dbias"].expect(c, sum, scale, double(R) / 64 + 16 + 64);
    }
  };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for (int64_t i = 0; i < R * C; ++i) loss += t["dy"][i] * (t["x"][i] + t["bias"][i % C]);
    return loss;
  };
  p.derivatives = {{"x", "dx"}, {"bias", "dbias"}};
  return p;
}

}  // namespace

void add_specs_bias_add(Registry& registry) {
  const std::string op = "bias_add";
  const auto add = [&](DType dtype, DType bias, const std::string& suffix) {
    for (Shape s : {Shape{1}, Shape{3, 17}, Shape{257, 64}, Shape{2, 3, 65}, Shape{0, 8}, Shape{4, 0}, Shape{2, 33000}})
      registry.add({op, "forward" + suffix, dtype, join(s), [=] { return forward(dtype, bias, s, Layout::contiguous); }});
    for (Shape s : {Shape{7, 63}, Shape{7, 1}})
      registry.add({op, "forward" + suffix, dtype, join(s, "/padded"), [=] { return forward(dtype, bias, s, Layout::padded_rows); }});
    registry.add({op, "forward" + suffix, dtype, "nan",
        [=] { return forward(dtype, bias, {3, 17}, Layout::contiguous, sprinkle(normal(), 5, 2, NAN)); }});
    for (int64_t R : {int64_t(1), int64_t(131), int64_t(0)})
      registry.add({op, "rule" + suffix, dtype, dims({R, 33}), [=] { return rule(dtype, bias, R, 33); }});
    registry.bench({op, "forward" + suffix, dtype, "8192x4096", [=] { return forward(dtype, bias, {8192, 4096}, Layout::contiguous); }});
  };
  add(DType::f32, DType::f32, "");
  add(DType::bf16, DType::bf16, "");
  add(DType::bf16, DType::f32, "_f32_bias");
  registry.rejects(op, "bias_length", [](Device& d) { bias_add(zeros(d, {2, 8}), zeros(d, {7})); });
  registry.rejects(op, "bias_rank", [](Device& d) { bias_add(zeros(d, {2, 8}), zeros(d, {1, 8})); });
  registry.rejects(op, "bias_dtype", [](Device& d) { bias_add(zeros(d, {2, 8}), zeros(d, {8}, DType::bf16)); });
  registry.rejects(op, "bias_stride", [](Device& d) {
    const Tensor x = zeros(d, {2, 8}), bias = zeros(d, {24});
    View view = bias.view();
    view.shape = Shape{8};
    view.strides = Strides{3};
    bias_add(d.stream(), {x.view(), view, x.mut_view()});
  });
  registry.rejects(op, "undefined_bias", [](Device& d) { bias_add(zeros(d, {2, 8}), Tensor()); });
  registry.rejects(op, "scalar_x", [](Device& d) { bias_add(zeros(d, {}), zeros(d, {1})); });
  registry.rejects(op, "integers", [](Device& d) { bias_add(zeros(d, {2, 8}, DType::i32), zeros(d, {8})); });
  registry.rejects(op, "transposed_rows", [](Device& d) { bias_add(zeros(d, {8, 2}).permute({1, 0}), zeros(d, {8})); });
}

}  // namespace weft::spec
