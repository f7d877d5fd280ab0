#include "weft/ops/route/route.h"

#include <cmath>
#include <numeric>

#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

struct Size {
  int64_t tokens, experts, chosen;
  bool of_chosen;
};

// The chosen experts of row r, ascending: those with the largest logits, NaN first, the lower expert among equals.
std::vector<int64_t> chosen(const Array& logits, int64_t r, Size s) {
  const auto rank = [&](int64_t e) { return std::isnan(logits[r * s.experts + e]) ? INFINITY : logits[r * s.experts + e]; };
  std::vector<int64_t> ids(static_cast<size_t>(s.experts));
  std::iota(ids.begin(), ids.end(), 0);
  std::ranges::stable_sort(ids, [&](int64_t a, int64_t b) { return rank(a) > rank(b); });
  ids.resize(size_t(s.chosen));
  std::ranges::sort(ids);
  return ids;
}

// p of every expert of row r; 0 for experts outside the softmax.
std::vector<double> softmax(const Array& logits, int64_t r, Size s, const std::vector<int64_t>& ids) {
  std::vector<double> p(size_t(s.experts), s.of_chosen ? -INFINITY : 0);
  for (int64_t e = 0; e < s.experts && !s.of_chosen; ++e) p[size_t(e)] = logits[r * s.experts + e];
  for (int64_t e : ids) p[size_t(e)] = logits[r * s.experts + e];
  double most = -INFINITY, sum = 0;
  for (double x : p) most = std::max(most, std::isnan(x) ? -INFINITY : x);
  for (double& x : p) sum += x = most == -INFINITY ? (std::isnan(x) ? x : 0) : std::exp(x - most);
  for (double& x : p) x = sum == 0 ? 0 : x / sum;
  return p;
}

// Roundings: exp to 2 ulp, with an argument of at most `spread` that was rounded once; a sum of E terms; a division; a product.
double roundings(Size s, double spread) { return 2 * spread + 8 + double(s.of_chosen ? s.chosen : s.experts) / 16; }

double spread_of(const Array& logits) {
  double most = 1;
  for (double x : logits.v) most = std::isfinite(x) ? std::max(most, 2 * std::abs(x)) : most;
  return most;
}

Problem forward(DType dtype, Size s, Fill fill, Layout layout = Layout::contiguous) {
  Problem p;
  p.input("logits", dtype, {s.tokens, s.experts}, fill, layout);
  p.output("ids", DType::i32, {s.tokens, s.chosen}).output("weights", DType::f32, {s.tokens, s.chosen});
  p.launches<RouteArgs>(route, [=](RouteArgs& a) { a.of_chosen = s.of_chosen; });
  p.reference = [=](Truth& t) {
    const double n = roundings(s, spread_of(t["logits"]));
    for (int64_t r = 0; r < s.tokens; ++r) {
      const std::vector<int64_t> ids = chosen(t["logits"], r, s);
      const std::vector<double> weights = softmax(t["logits"], r, s, ids);
      for (int64_t j = 0; j < s.chosen; ++j) {
        const double w = weights[size_t(ids[size_t(j)])];
        t["ids"].expect(r * s.chosen + j, double(ids[size_t(j)]), 0, 0);
        t["weights"].expect(r * s.chosen + j, w, w, n);
      }
    }
  };
  return p;
}

Problem backward(DType dtype, Size s, Layout layout = Layout::contiguous) {
  Problem p;
  p.input("logits", dtype, {s.tokens, s.experts}, normal(), layout);
  p.input("ids", DType::i32, {s.tokens, s.chosen}, constant(0)).input("dweights", DType::f32, {s.tokens, s.chosen}, normal());
  p.output("dlogits", dtype, {s.tokens, s.experts}, layout);
  p.prepare = [=](Truth& t) {
    for (int64_t r = 0; r < s.tokens; ++r) {
      const std::vector<int64_t> ids = chosen(t["logits"], r, s);
      for (int64_t j = 0; j < s.chosen; ++j) t["ids"].v[size_t(r * s.chosen + j)] = double(ids[size_t(j)]);
    }
  };
  p.launches<RouteBackwardArgs>(route_backward, [=](RouteBackwardArgs& a) { a.of_chosen = s.of_chosen; });
  const auto ids_of = [=](const Truth& t, int64_t r) {
    std::vector<int64_t> ids;
    for (int64_t j = 0; j < s.chosen; ++j) ids.push_back(int64_t(t["ids"][r * s.chosen + j]));
    return ids;
  };
  p.reference = [=](Truth& t) {
    const double n = 2 * roundings(s, spread_of(t["logits"])) + double(s.chosen) + 4;
    for (int64_t r = 0; r < s.tokens; ++r) {
      const std::vector<int64_t> ids = ids_of(t, r);
      const std::vector<double> weights = softmax(t["logits"], r, s, ids);
      std::vector<double> g(size_t(s.experts), 0);
      double sum = 0, size = 0;
      for (int64_t j = 0; j < s.chosen; ++j) {
        const size_t e = size_t(ids[size_t(j)]);
        g[e] = t["dweights"][r * s.chosen + j];
        sum += weights[e] * g[e], size += std::abs(weights[e] * g[e]);
      }
      for (int64_t e = 0; e < s.experts; ++e) {
        const double w = weights[size_t(e)];
        t["dlogits"].expect(r * s.experts + e, w * (g[size_t(e)] - sum), w * (std::abs(g[size_t(e)]) + size), n);
      }
    }
  };
  p.loss = [=](const Truth& t) {  // ids are constants
    double loss = 0;
    for (int64_t r = 0; r < s.tokens; ++r) {
      const std::vector<int64_t> ids = ids_of(t, r);
      const std::vector<double> weights = softmax(t["logits"], r, s, ids);
      for (int64_t j = 0; j < s.chosen; ++j) loss += t["dweights"][r * s.chosen + j] * weights[size_t(ids[size_t(j)])];
    }
    return loss;
  };
  p.derivatives = {{"logits", "dlogits"}};
  return p;
}

void add_rejections(Registry& registry) {
  const std::string op = "route";
  registry.rejects(op, "none_chosen", [](Device& d) { route(zeros(d, {2, 4}), 0, true); });
  registry.rejects(op, "more_than_there_are", [](Device& d) { route(zeros(d, {2, 4}), 5, true); });
  registry.rejects(op, "too_many_experts", [](Device& d) { route(zeros(d, {2, RouteArgs::kMostExperts + 1}), 2, true); });
  registry.rejects(op, "undefined", [](Device&) { route(Tensor(), 1, true); });
  registry.rejects(op, "dtype", [](Device& d) { route(zeros(d, {2, 4}, DType::i32), 1, true); });
  registry.rejects(op, "backward_shape", [](Device& d) {
    const Tensor x = zeros(d, {2, 4}), ids = zeros(d, {2, 2}, DType::i32), dw = zeros(d, {2, 3}), dx = zeros(d, {2, 4});
    route_backward(d.stream(), {x.view(), ids.view(), dw.view(), dx.mut_view(), true});
  });
}

}  // namespace

void add_specs_route(Registry& registry) {
  const std::string op = "route";
  for (DType dtype : {DType::f32, DType::bf16}) {
    for (bool of_chosen : {true, false})
      for (auto [T, E, k] : std::initializer_list<std::array<int64_t, 3>>{
               {1, 1, 1}, {5, 8, 2}, {7, 33, 4}, {3, 128, 8}, {2, 1024, 64}, {4, 60, 60}, {40, 31, 5}, {0, 8, 2}}) {
        const Size s{T, E, k, of_chosen};
        const std::string name = dims({T, E, k}) + (of_chosen ? "/of_chosen" : "/of_all");
        registry.add({op, "forward", dtype, name, [=] { return forward(dtype, s, normal()); }});
        registry.add({op, "forward", dtype, name + "/padded", [=] { return forward(dtype, s, normal(2), Layout::padded_rows); }});
        registry.add({op, "backward", dtype, name, [=] { return backward(dtype, s); }});
        registry.add({op, "backward", dtype, name + "/padded", [=] { return backward(dtype, s, Layout::padded_rows); }});
      }
    // Equal logits, NaN and infinity.
    for (bool of_chosen : {true, false}) {
      const Size s{6, 70, 5, of_chosen};
      const std::string which = of_chosen ? "/of_chosen" : "/of_all";
      registry.add({op, "forward", dtype, "equal" + which, [=] { return forward(dtype, s, constant(0.5)); }});
      registry.add({op, "forward", dtype, "ties" + which, [=] { return forward(dtype, s, listed({1, 2, 2, 0, 2, 1, 2})); }});
      registry.add(
          {op, "forward", dtype, "minus_infinity" + which, [=] { return forward(dtype, s, sprinkle(constant(-INFINITY), 70, 3, 1)); }});
      registry.add({op, "forward", dtype, "nan" + which, [=] { return forward(dtype, s, sprinkle(normal(), 90, 50, NAN)); }});
    }
    registry.bench({op, "forward", dtype, "8192x128x8", [=] { return forward(dtype, {8192, 128, 8, true}, normal()); }});
    registry.bench({op, "backward", dtype, "8192x128x8", [=] { return backward(dtype, {8192, 128, 8, true}); }});
  }
  add_rejections(registry);
}

}  // namespace weft::spec
