#include "weft/ops/expert_order/expert_order.h"

#include <algorithm>
#include <numeric>

#include "weft/ops/fill/fill.h"
#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

Problem problem(int64_t T, int64_t E, int64_t k, Fill fill) {
  Problem p;
  p.input("ids", DType::i32, {T, k}, fill);
  p.output("starts", DType::i32, {E + 1}).output("rows", DType::i32, {T * k}).output("places", DType::i32, {T, k});
  p.launches<ExpertOrderArgs>(expert_order);
  p.reference = [=](Truth& t) {
    std::vector<int64_t> order(size_t(T * k));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return t["ids"][a] < t["ids"][b]; });
    for (int64_t i = 0; i < T * k; ++i) {
      t["rows"].expect(i, double(order[size_t(i)]), 0, 0);
      t["places"].expect(order[size_t(i)], double(i), 0, 0);
    }
    for (int64_t e = 0; e <= E; ++e)
      t["starts"].expect(e, double(std::ranges::count_if(t["ids"].v, [=](double id) { return id < double(e); })), 0, 0);
  };
  return p;
}

}  // namespace

void add_specs_expert_order(Registry& registry) {
  const std::string op = "expert_order";
  for (auto [T, E, k] : std::initializer_list<std::array<int64_t, 3>>{
           {1, 1, 1}, {1, 128, 8}, {5, 8, 2}, {300, 16, 4}, {1027, 64, 3}, {9, 1024, 2}, {700, 3, 6}, {0, 4, 2}})
    registry.add({op, "forward", DType::i32, dims({T, E, k}), [=] { return problem(T, E, k, ids(E)); }});
  registry.add({op, "forward", DType::i32, "one_expert", [] { return problem(600, 5, 2, constant(3)); }});
  registry.add({op, "forward", DType::i32, "first_and_last", [] { return problem(33, 40, 2, listed({39, 0})); }});
  registry.bench({op, "forward", DType::i32, "8192x128x8", [] { return problem(8192, 128, 8, ids(128)); }});
  registry.rejects(op, "id_too_large", [](Device& d) { expert_order(full(d, {2, 2}, 4, DType::i32), 4); });
  registry.rejects(op, "id_negative", [](Device& d) { expert_order(full(d, {2, 2}, -1, DType::i32), 4); });
  registry.rejects(op, "no_experts", [](Device& d) { expert_order(zeros(d, {2, 2}, DType::i32), 0); });
  registry.rejects(op, "float_ids", [](Device& d) { expert_order(zeros(d, {2, 2}), 4); });
  registry.rejects(op, "undefined", [](Device&) { expert_order(Tensor(), 4); });
}

}  // namespace weft::spec
