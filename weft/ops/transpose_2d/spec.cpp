#include "weft/ops/transpose_2d/transpose_2d.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

struct Size {
  int64_t batch, M, N;  // batch 0: a matrix
};

std::string text(Size s) { return s.batch ? dims({s.batch, s.M, s.N}) : dims({s.M, s.N}); }
Shape shape(Size s) { return s.batch ? Shape{s.batch, s.M, s.N} : Shape{s.M, s.N}; }
Size swapped(Size s) { return {s.batch, s.N, s.M}; }

// Calls visit(i, j): element i of x is element j of y.
template <class F>
void for_each_pair(Size s, F visit) {
  for (int64_t b = 0; b < std::max<int64_t>(1, s.batch); ++b)
    for (int64_t m = 0; m < s.M; ++m)
      for (int64_t n = 0; n < s.N; ++n) visit((b * s.M + m) * s.N + n, (b * s.N + n) * s.M + m);
}

// The bits are moved: the bound stays 0.
Problem forward(DType dtype, Size s, Layout layout) {
  Problem p;
  p.input("x", dtype, shape(s), is_float(dtype) ? sprinkle(normal(), 97, 5, NAN) : ids(250), layout)
      .output("y", dtype, shape(swapped(s)), layout);
  p.launches<Transpose2dArgs>(transpose_2d);
  p.reference = [=](Truth& t) { for_each_pair(s, [&](int64_t i, int64_t j) { t["y"].v[size_t(j)] = t["x"][i]; }); };
  return p;
}

Problem rule(DType dtype, Size s) {
  Problem p;
  p.input("x", dtype, shape(s), normal())
      .input("dy", dtype, shape(swapped(s)), normal(), Layout::padded_rows)
      .output("dx", dtype, shape(s));
  p.run = [=](Stream&, const Bound& b) {
    Tensor x = b.tensor("x");
    const Tensor y = transpose_2d(x.set_requires_grad());
    copy(y.node()->backward({{b.tensor("dy")}, {true}}).at(0), b.tensor("dx"));
  };
  p.reference = [=](Truth& t) { for_each_pair(s, [&](int64_t i, int64_t j) { t["dx"].v[size_t(i)] = t["dy"][j]; }); };
  p.loss = [=](const Truth& t) {
    double loss = 0;
    for_each_pair(s, [&](int64_t i, int64_t j) { loss += t["dy"][j] * t["x"][i]; });
    return loss;
  };
  p.derivatives = {{"x", "dx"}};
  return p;
}

}  // namespace

void add_specs_transpose_2d(Registry& registry) {
  const std::string op = "transpose_2d";
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::u32, DType::u8}) {
    const Size sizes[] = {{0, 1, 1},    {0, 1, 37},    {0, 37, 1},  {0, 16, 16}, {0, 15, 17}, {0, 33, 64},
                          {0, 129, 65}, {0, 257, 300}, {3, 17, 31}, {2, 64, 16}, {0, 0, 5},   {0, 5, 0}};
    for (Size s : sizes) registry.add({op, "forward", dtype, text(s), [=] { return forward(dtype, s, Layout::contiguous); }});
    for (Size s : {Size{0, 35, 66}, Size{2, 70, 33}})
      registry.add({op, "forward", dtype, text(s) + "/padded", [=] { return forward(dtype, s, Layout::padded_rows); }});
    if (dtype == DType::f32 || dtype == DType::bf16) {
      // Large enough for non-temporal stores, with rows that are and are not whole lines.
      registry.add({op, "forward", dtype, "2048x4128", [=] { return forward(dtype, {0, 2048, 4128}, Layout::contiguous); }});
      registry.add({op, "forward", dtype, "2x2049x2100", [=] { return forward(dtype, {2, 2049, 2100}, Layout::contiguous); }});
      registry.add({op, "rule", dtype, "5x19", [=] { return rule(dtype, {0, 5, 19}); }});
      registry.add({op, "rule", dtype, "2x5x19", [=] { return rule(dtype, {2, 5, 19}); }});
      registry.bench_gpu({op, "forward", dtype, "16384x16384", [=] { return forward(dtype, {0, 16384, 16384}, Layout::contiguous); }});
      registry.bench({op, "forward", dtype, "8192x8192", [=] { return forward(dtype, {0, 8192, 8192}, Layout::contiguous); }});
    }
  }
  registry.rejects(op, "vector", [](Device& d) { transpose_2d(zeros(d, {8})); });
  registry.rejects(op, "rank_4", [](Device& d) { transpose_2d(zeros(d, {2, 2, 2, 2})); });
  registry.rejects(op, "undefined", [](Device&) { transpose_2d(Tensor()); });
  registry.rejects(op, "columns_first", [](Device& d) { transpose_2d(zeros(d, {8, 4}).permute({1, 0})); });
  registry.rejects(op, "output_shape", [](Device& d) {
    const Tensor x = zeros(d, {4, 8}), y = zeros(d, {4, 8});
    transpose_2d(d.stream(), {x.view(), y.mut_view()});
  });
  registry.rejects(op, "output_dtype", [](Device& d) {
    const Tensor x = zeros(d, {4, 8}), y = zeros(d, {8, 4}, DType::bf16);
    transpose_2d(d.stream(), {x.view(), y.mut_view()});
  });
}

}  // namespace weft::spec
