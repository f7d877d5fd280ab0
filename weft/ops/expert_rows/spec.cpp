#include "weft/ops/expert_rows/expert_rows.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "weft/ops/expert_order/expert_order.h"
#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Size {
  int64_t T, k, C;
  bool weighted;
  Layout layout = Layout::contiguous;
};

// A fixed permutation of n elements.
std::vector<double> permutation(int64_t n) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [=](int64_t i) { return std::pair((i * 7919 + 13) % 31, i); });
  return {order.begin(), order.end()};
}
std::vector<double> inverse(const std::vector<double>& order) {
  std::vector<double> places(order.size());
  for (size_t i = 0; i < order.size(); ++i) places[size_t(order[i])] = double(i);
  return places;
}
Fill values(const std::vector<double>& v) { return v.empty() ? constant(0) : listed(v); }

void add_weights(Problem& p, const Size& s) {
  if (s.weighted) p.input("weights", DType::f32, {s.T, s.k}, normal());
}

Problem rows(DType dtype, Size s) {
  const int64_t P = s.T * s.k;
  const std::vector<double> order = permutation(P);
  Problem p;
  p.input("x", dtype, {s.T, s.C}, normal(), s.layout).input("rows", DType::i32, {P}, values(order));
  add_weights(p, s);
  p.output("y", dtype, {P, s.C}, s.layout);
  p.launches<ExpertRowsArgs>(expert_rows);
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < P * s.C; ++i) {
      const int64_t from = int64_t(order[size_t(i / s.C)]);
      const double y = (s.weighted ? t["weights"][from] : 1) * t["x"][from / s.k * s.C + i % s.C];
      t["y"].expect(i, y, y, s.weighted ? 1 : 0);
    }
  };
  return p;
}

Problem sum(DType dtype, Size s) {
  const int64_t P = s.T * s.k;
  const std::vector<double> places = inverse(permutation(P));
  Problem p;
  p.input("x", dtype, {P, s.C}, normal(), s.layout).input("places", DType::i32, {s.T, s.k}, values(places));
  add_weights(p, s);
  p.output("y", dtype, {s.T, s.C}, s.layout);
  p.launches<ExpertSumArgs>(expert_sum);
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < s.T * s.C; ++i) {
      double y = 0, size = 0;
      for (int64_t j = 0; j < s.k; ++j) {
        const int64_t at = i / s.C * s.k + j;
        const double term = (s.weighted ? t["weights"][at] : 1) * t["x"][int64_t(places[size_t(at)]) * s.C + i % s.C];
        y += term, size += std::abs(term);
      }
      t["y"].expect(i, y, size, double(s.k));
    }
  };
  return p;
}

Problem dots(DType dtype, Size s) {
  const int64_t P = s.T * s.k;
  const std::vector<double> places = inverse(permutation(P));
  Problem p;
  p.input("dy", dtype, {s.T, s.C}, normal(), s.layout).input("x", dtype, {P, s.C}, normal(), s.layout);
  p.input("places", DType::i32, {s.T, s.k}, values(places)).input("weights", DType::f32, {s.T, s.k}, normal());
  p.output("dots", DType::f32, {s.T, s.k});
  p.launches<ExpertDotsArgs>(expert_dots);
  const auto term = [=](const Truth& t, int64_t at, int64_t c) {
    return t["dy"][at / s.k * s.C + c] * t["x"][int64_t(places[size_t(at)]) * s.C + c];
  };
  p.reference = [=](Truth& t) {
    for (int64_t at = 0; at < P; ++at) {
      double d = 0, size = 0;
      for (int64_t c = 0; c < s.C; ++c) d += term(t, at, c), size += std::abs(term(t, at, c));
      t["dots"].expect(at, d, size, double(s.C) / 16 + 8);  // lanes of at least sixteen, then their tree
    }
  };
  p.loss = [=](const Truth& t) {  // <dy, expert_sum(x, weights)>
    double loss = 0;
    for (int64_t at = 0; at < P; ++at)
      for (int64_t c = 0; c < s.C; ++c) loss += t["weights"][at] * term(t, at, c);
    return loss;
  };
  p.derivatives = {{"weights", "dots"}};
  return p;
}

void add_rejections(Registry& registry) {
  const std::string op = "expert_rows";
  const auto reject = [&](const char* name, std::function<void(Device&, Tensor & x, ExpertOrder&)> spoil) {
    registry.rejects(op, name, [=](Device& d) {
      Tensor x = zeros(d, {3, 4});
      ExpertOrder order{zeros(d, {3}, DType::i32), zeros(d, {6}, DType::i32), zeros(d, {3, 2}, DType::i32)};
      spoil(d, x, order);
      expert_rows(x, order);
    });
  };
  reject("undefined", [](Device&, Tensor& x, ExpertOrder&) { x = Tensor(); });
  reject("no_multiple", [](Device& d, Tensor&, ExpertOrder& order) { order.rows = zeros(d, {7}, DType::i32); });
  reject("row_too_large", [](Device& d, Tensor&, ExpertOrder& order) { order.rows = full(d, {6}, 6, DType::i32); });
  reject("float_rows", [](Device& d, Tensor&, ExpertOrder& order) { order.rows = zeros(d, {6}); });
  const auto reject_sum = [&](const char* name, std::function<void(Device&, Tensor & x, ExpertOrder&, Tensor & weights)> spoil) {
    registry.rejects(op, name, [=](Device& d) {
      Tensor x = zeros(d, {6, 4}), weights = zeros(d, {3, 2});
      ExpertOrder order{zeros(d, {3}, DType::i32), zeros(d, {6}, DType::i32), zeros(d, {3, 2}, DType::i32)};
      spoil(d, x, order, weights);
      expert_sum(x, order, weights);
    });
  };
  reject_sum("sum_of_other_rows", [](Device& d, Tensor& x, ExpertOrder&, Tensor&) { x = zeros(d, {5, 4}); });
  reject_sum("sum_weights_shape", [](Device& d, Tensor&, ExpertOrder&, Tensor& w) { w = zeros(d, {3, 3}); });
  reject_sum("sum_place_negative", [](Device& d, Tensor&, ExpertOrder& order, Tensor&) { order.places = full(d, {3, 2}, -1, DType::i32); });
  reject_sum("sum_undefined_places", [](Device&, Tensor&, ExpertOrder& order, Tensor&) { order.places = Tensor(); });
}

}  // namespace

void add_specs_expert_rows(Registry& registry) {
  const std::string op = "expert_rows";
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (auto [T, k, C] : std::initializer_list<std::array<int64_t, 3>>{
             {1, 1, 1}, {5, 2, 7}, {9, 4, 64}, {3, 8, 257}, {40, 3, 130}, {2, 1, 2051}, {0, 2, 8}})
      for (Layout layout : {Layout::contiguous, Layout::padded_rows}) {
        const std::string name = dims({T, k, C}) + (layout == Layout::padded_rows ? "/padded" : "");
        for (bool weighted : {true, false}) {
          const Size s{T, k, C, weighted, layout};
          registry.add({op, weighted ? "weighted_rows" : "rows", dtype, name, [=] { return rows(dtype, s); }});
          registry.add({op, weighted ? "weighted_sum" : "sum", dtype, name, [=] { return sum(dtype, s); }});
        }
        registry.add({op, "dots", dtype, name, [=] { return dots(dtype, {T, k, C, true, layout}); }});
      }
    const Size large{8192, 8, 2048, true};
    registry.bench({op, "rows", dtype, "8192x8x2048", [=] { return rows(dtype, {8192, 8, 2048, false}); }});
    registry.bench({op, "weighted_sum", dtype, "8192x8x2048", [=] { return sum(dtype, large); }});
    registry.bench({op, "dots", dtype, "8192x8x2048", [=] { return dots(dtype, large); }});
  }
  add_rejections(registry);
}

}  // namespace weft::spec
