#include "weft/ops/embedding/embedding.h"

#include <cmath>

#include "weft/ops/copy/copy.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"
#include "weft/tensor/node.h"

namespace weft::spec {
namespace {

struct Size {
  int64_t V, P, C;
};

// Ids as a language has them: id i about as often as 1 / (i + 1).
Fill zipf(int64_t count) {
  return [=](PhiloxStream& random, int64_t) { return std::min(double(count), std::floor(std::pow(double(count), random.uniform()))) - 1; };
}

Problem forward(DType dtype, DType id, Size s, Fill fill, Layout layout) {
  Problem p;
  p.input("w", dtype, {s.V, s.C}, sprinkle(normal(), 101, 7, NAN), layout)
      .input("ids", id, {s.P}, fill)
      .output("y", dtype, {s.P, s.C}, layout);
  p.launches<EmbeddingArgs>(embedding);
  p.reference = [=](Truth& t) {  // a copy: exact
    for (int64_t i = 0; i < s.P * s.C; ++i) t["y"].v[size_t(i)] = t["w"][int64_t(t["ids"][i / s.C]) * s.C + i % s.C];
  };
  return p;
}

// dw and the sum of magnitudes behind each of its elements.
struct Sums {
  std::vector<double> value, scale;
  std::vector<int64_t> count;
};

Sums sums(const Truth& t, Size s) {
  Sums r{std::vector<double>(size_t(s.V * s.C)), std::vector<double>(size_t(s.V * s.C)), std::vector<int64_t>(size_t(s.V))};
  for (int64_t p = 0; p < s.P; ++p) {
    const int64_t id = int64_t(t["ids"][p]);
    ++r.count[size_t(id)];
    for (int64_t c = 0; c < s.C; ++c) {
      r.value[size_t(id * s.C + c)] += t["dy"][p * s.C + c];
      r.scale[size_t(id * s.C + c)] += std::abs(t["dy"][p * s.C + c]);
    }
  }
  return r;
}

// n positions are a chain of at most 256 additions, then one addition for each chunk of 256, then one into dw.
double roundings(int64_t n) { return double(std::min<int64_t>(n, 256)) + double(n) / 256 + 1; }

Problem backward(DType dtype, DType id, Size s, Fill fill, Layout layout, bool accumulate) {
  Problem p;
  p.input("dy", dtype, {s.P, s.C}, normal(), layout).input("ids", id, {s.P}, fill);
  accumulate ? p.in_place("dw", DType::f32, {s.V, s.C}, normal(), layout) : p.output("dw", DType::f32, {s.V, s.C}, layout);
  p.launches<EmbeddingBackwardArgs>(embedding_backward, [=](EmbeddingBackwardArgs& a) { a.accumulate = accumulate; });
  p.reference = [=](Truth& t) {
    const Sums r = sums(t, s);
    for (int64_t i = 0; i < s.V * s.C; ++i) {
      const double before = accumulate ? t["dw"][i] : 0;
      Array& dw = t[accumulate ? result("dw") : "dw"];
      const int64_t n = r.count[size_t(i / s.C)];
      dw.expect(i, before + r.value[size_t(i)], n ? std::abs(before) + r.scale[size_t(i)] : 0, roundings(n));
    }
  };
  if (!accumulate) {
    p.input("w", DType::f32, {s.V, s.C}, normal());  // for the loss alone
    p.loss = [=](const Truth& t) {
      double loss = 0;
      for (int64_t i = 0; i < s.P * s.C; ++i) loss += t["dy"][i] * t["w"][int64_t(t["ids"][i / s.C]) * s.C + i % s.C];
      return loss;
    };
    p.derivatives = {{"w", "dw"}};
  }
  return p;
}

// The tensor function with ids of two axes, and its recorded rule.
Problem rule(DType dtype, Size s) {
  Problem p = backward(dtype, DType::i32, s, zipf(s.V), Layout::padded_rows, false);
  p.run = [=](Stream&, const Bound& b) {
    Tensor w = cast(b.tensor("w"), dtype).detach();
    const Tensor y = embedding(w.set_requires_grad(), b.tensor("ids").reshape({1, s.P}));
    check(y.shape() == Shape{1, s.P, s.C}, "check", "y has shape ", y.shape());
    const Tensor dy = contiguous(b.tensor("dy")).reshape({1, s.P, s.C});
    copy(y.node()->backward({{dy}, {true}}).at(0), b.tensor("dw"));
  };
  return p;
}

void add_rejections(Registry& registry) {
  const std::string op = "embedding";
  const auto lookup = [](Device& d, std::vector<int32_t> values) {
    embedding(zeros(d, {50, 4}), Tensor::from_host(d, {int64_t(values.size())}, values));
  };
  registry.rejects(op, "id_too_large", [=](Device& d) { lookup(d, {0, 49, 3, 50}); });
  registry.rejects(op, "id_negative", [=](Device& d) { lookup(d, {0, -1}); });
  registry.rejects(op, "empty_table", [](Device& d) { embedding(zeros(d, {0, 4}), zeros(d, {1}, DType::i32)); });
  registry.rejects(op, "backward_id_too_large", [](Device& d) {
    const Tensor dy = zeros(d, {2, 4}), ids = full(d, {2}, 4000000000.0, DType::u32), dw = zeros(d, {50, 4});
    embedding_backward(d.stream(), {dy.view(), ids.view(), dw.mut_view(), false});
  });
  registry.rejects(op, "float_ids", [](Device& d) { embedding(zeros(d, {50, 4}), zeros(d, {3})); });
  registry.rejects(op, "table_rank", [](Device& d) { embedding(zeros(d, {50}), zeros(d, {3}, DType::i32)); });
  registry.rejects(op, "undefined_table", [](Device& d) { embedding(Tensor(), zeros(d, {3}, DType::i32)); });
  registry.rejects(op, "undefined_ids", [](Device& d) { embedding(zeros(d, {50, 4}), Tensor()); });
  registry.rejects(op, "strided_ids", [](Device& d) { embedding(zeros(d, {50, 4}), zeros(d, {3, 2}, DType::i32).part(1, 0, 1)); });
  registry.rejects(op, "transposed_table", [](Device& d) { embedding(zeros(d, {4, 50}).permute({1, 0}), zeros(d, {3}, DType::i32)); });
  registry.rejects(op, "backward_shape", [](Device& d) {
    const Tensor dy = zeros(d, {2, 5}), ids = zeros(d, {2}, DType::i32), dw = zeros(d, {50, 4});
    embedding_backward(d.stream(), {dy.view(), ids.view(), dw.mut_view(), false});
  });
}

}  // namespace

void add_specs_embedding(Registry& registry) {
  const std::string op = "embedding";
  const auto text = [](Size s) { return dims({s.V, s.P, s.C}); };
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (Size s : {Size{1, 1, 1}, Size{7, 33, 17}, Size{50, 257, 64}, Size{300, 65, 31}, Size{5, 3000, 48}, Size{9, 0, 8}, Size{9, 4, 0}}) {
      const Fill fill = zipf(s.V);
      for (DType id : {DType::i32, DType::u32}) {
        const std::string suffix = id == DType::u32 ? "_u32" : "";
        registry.add({op, "forward" + suffix, dtype, text(s), [=] { return forward(dtype, id, s, fill, Layout::contiguous); }});
        registry.add({op, "backward" + suffix, dtype, text(s), [=] { return backward(dtype, id, s, fill, Layout::contiguous, false); }});
        registry.add({op, "accumulate" + suffix, dtype, text(s), [=] { return backward(dtype, id, s, fill, Layout::contiguous, true); }});
      }
      if (s.C == 0) continue;  // rows of padding alone
      registry.add({op, "forward", dtype, text(s) + "/padded", [=] { return forward(dtype, DType::i32, s, fill, Layout::padded_rows); }});
      registry.add(
          {op, "backward", dtype, text(s) + "/padded", [=] { return backward(dtype, DType::i32, s, fill, Layout::padded_rows, false); }});
      registry.add(
          {op, "accumulate", dtype, text(s) + "/padded", [=] { return backward(dtype, DType::i32, s, fill, Layout::padded_rows, true); }});
    }
    // All positions one id: four chunks, one of them a single row.
    registry.add({op, "backward", dtype, "one_id",
                  [=] { return backward(dtype, DType::i32, {3, 769, 33}, constant(1), Layout::contiguous, false); }});
    // Ids that 12 and 16 bits do not hold, one of them twice.
    const Size far{70001, 8, 3};
    const Fill far_ids = listed({0, 4095, 4096, 65535, 65536, 70000, 4096, 69999});
    registry.add({op, "forward", dtype, text(far) + "/far", [=] { return forward(dtype, DType::i32, far, far_ids, Layout::contiguous); }});
    registry.add(
        {op, "forward_u32", dtype, text(far) + "/far", [=] { return forward(dtype, DType::u32, far, far_ids, Layout::contiguous); }});
    registry.add(
        {op, "backward", dtype, text(far) + "/far", [=] { return backward(dtype, DType::i32, far, far_ids, Layout::contiguous, false); }});
    registry.add({op, "rule", dtype, "11x40x19", [=] { return rule(dtype, {11, 40, 19}); }});
    for (Size c : {Size{1536, 1536, 768}, Size{257, 5001, 387}, Size{8200, 100, 131}})
      for (DType id : {DType::i32, DType::u32}) {
        const std::string suffix = id == DType::u32 ? "_u32" : "";
        registry.count({op, "forward" + suffix, dtype, text(c), [=] { return forward(dtype, id, c, zipf(c.V), Layout::contiguous); }});
        registry.count(
            {op, "backward" + suffix, dtype, text(c), [=] { return backward(dtype, id, c, zipf(c.V), Layout::contiguous, false); }});
      }
    for (Size b : {Size{50304, 65536, 768}, Size{1536, 1536, 768}}) {
      registry.bench({op, "forward", dtype, text(b), [=] { return forward(dtype, DType::i32, b, zipf(b.V), Layout::contiguous); }});
      registry.bench(
          {op, "backward", dtype, text(b), [=] { return backward(dtype, DType::i32, b, zipf(b.V), Layout::contiguous, false); }});
    }
  }
  const auto size_of_case = [](const GoldenCase& g) { return Size{g.integer("vocab"), g.integer("n"), g.integer("dim")}; };
  registry.golden({op, "golden_forward", "embedding.safetensors", [=](const GoldenCase& g) {
                     Problem p = forward(DType::f32, DType::i32, size_of_case(g), constant(0), Layout::contiguous);
                     return p.given("w", g.values("w")).given("ids", g.values("ids")).golden("y", g.values("y"));
                   }});
  registry.golden({op, "golden_backward", "embedding.safetensors", [=](const GoldenCase& g) {
                     Problem p = backward(DType::f32, DType::i32, size_of_case(g), constant(0), Layout::contiguous, false);
                     return p.given("dy", g.values("dy")).given("ids", g.values("ids")).golden("dw", g.values("dw"));
                   }});
  add_rejections(registry);
}

}  // namespace weft::spec
