#include "weft/ops/document_positions/document_positions.h"

#include <algorithm>

#include "weft/spec/registry.h"

namespace weft::spec {
namespace {

Problem problem(const std::vector<int64_t>& documents) {
  const int64_t T = documents.back();
  Problem p;
  p.input("documents", DType::i32, {int64_t(documents.size())}, listed({documents.begin(), documents.end()}));
  p.output("positions", DType::i32, {T});
  p.launches<DocumentPositionsArgs>(document_positions);
  p.reference = [=](Truth& t) {
    for (int64_t i = 0; i < T; ++i) {
      int64_t first = 0;
      for (int64_t end : documents)
        if (end <= i) first = end;
      t["positions"].expect(i, double(i - first), 0, 0);
    }
  };
  return p;
}

std::vector<int64_t> every(int64_t length, int64_t T) {
  std::vector<int64_t> ends{0};
  while (ends.back() < T) ends.push_back(std::min(T, ends.back() + length));
  return ends;
}

}  // namespace

void add_specs_document_positions(Registry& registry) {
  const char* op = "document_positions";
  const auto add = [&](const std::string& name, const std::vector<int64_t>& documents) {
    registry.add({op, "forward", DType::i32, name, [=] { return problem(documents); }});
  };
  add("one", {0, 300});
  add("none", {0});
  add("empty", {0, 0, 7, 7, 7, 263, 263});
  add("single_tokens", every(1, 300));
  add("sevens", every(7, 1000));
  add("more_entries_than_tokens", {0, 0, 0, 0, 2, 2, 3, 3, 3});
  add("long", {0, 70001, 70001 + 66000});  // positions that 16 bits do not hold
  registry.bench({op, "forward", DType::i32, "8192", [] { return problem(every(300, 8192)); }});
  const auto reject = [&](const char* name, std::vector<int32_t> documents) {
    registry.rejects(op, name, [=](Device& d) { document_positions(Tensor::from_host(d, {int64_t(documents.size())}, documents), 4); });
  };
  reject("end_early", {0, 3});
  reject("end_late", {0, 5});
  reject("not_from_zero", {1, 4});
  reject("descend", {0, 3, 2, 4});
  reject("negative", {0, -1, 4});
  registry.rejects(op, "no_lengths", [](Device& d) { document_positions(Tensor::empty(d, {0}, DType::i32), 4); });
  registry.rejects(op, "floats", [](Device& d) { document_positions(Tensor::empty(d, {2}), 4); });
  registry.rejects(op, "undefined", [](Device&) { document_positions(Tensor(), 4); });
}

}  // namespace weft::spec
