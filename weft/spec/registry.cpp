#include "weft/spec/registry.h"

#include "weft/base/check.h"

namespace weft::spec {
namespace {

void each_row_case(const std::string& op, const std::string& variant, const RowSizes& sizes, std::initializer_list<Layout> layouts,
                   const MakeRowCase& make, const std::function<void(Case)>& add) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (auto [rows, columns] : sizes)
      for (Layout layout : layouts) {
        const RowCase c{dtype, rows, columns, layout};
        const std::string name = dims({rows, columns}) + (layout == Layout::padded_rows ? "/padded" : "");
        add({op, variant, dtype, name, [=] { return make(c); }});
      }
}

}  // namespace

void Registry::add_rows(const std::string& op, const std::string& variant, const RowSizes& sizes, const MakeRowCase& make) {
  each_row_case(op, variant, sizes, {Layout::contiguous, Layout::padded_rows}, make, [this](Case c) { add(std::move(c)); });
}
void Registry::bench_rows(const std::string& op, const std::string& variant, const RowSizes& sizes, const MakeRowCase& make) {
  each_row_case(op, variant, sizes, {Layout::contiguous}, make, [this](Case c) { bench(std::move(c)); });
}
void Registry::count_rows(const std::string& op, const std::string& variant, const RowSizes& sizes, const MakeRowCase& make) {
  each_row_case(op, variant, sizes, {Layout::contiguous}, make, [this](Case c) { count(std::move(c)); });
}

std::string dims(std::initializer_list<int64_t> extents) { return join(Shape(extents)); }

}  // namespace weft::spec
