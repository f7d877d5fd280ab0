#include "bench/targets.h"

#include "bench/ceilings_cpu.h"

namespace weft::bench {
namespace {

struct Row {
  std::string_view op, variant, name;  // variant and name are prefixes; "" matches any
  Target target;
};

// The first matching row counts.
const std::vector<Row>& rows() {
  using enum Ceiling;
  static const std::vector<Row> kRows = {
      {"matmul", "", "1x", {.ceilings = {read}, .cold = true, .wanted = 0.90, .in_table = true}},
      {"matmul", "", "", {.ceilings = {fma}, .in_table = true}},
      {"causal_attention", "", "", {.ceilings = {fma}, .in_table = true}},
      {"kv_attention", "decode", "", {.ceilings = {read}, .cold = true, .wanted = 0.85, .in_table = true}},
      {"rms_norm", "", "", {.ceilings = {copy}, .wanted = 0.75, .in_table = true}},
      {"layer_norm", "", "", {.ceilings = {copy}, .wanted = 0.75, .in_table = true}},
      {"softmax", "forward", "", {.ceilings = {copy, exp}, .exps_of = "x", .wanted = 0.75, .in_table = true}},
      {"softmax", "", "", {.ceilings = {copy}, .wanted = 0.75, .in_table = true}},
      {"cross_entropy", "gradient", "", {.ceilings = {copy, exp}, .exps_of = "logits", .wanted = 0.60, .in_table = true}},
      {"cross_entropy", "", "", {.ceilings = {copy, exp}, .exps_of = "logits"}},
      {"embedding", "backward", "", {.ceilings = {copy}, .wanted = 0.50, .in_table = true}},
      {"transpose_2d", "", "", {.ceilings = {copy}, .wanted = 0.70, .in_table = true}},
      {"adamw", "", "", {.ceilings = {triad}, .wanted = 0.95, .in_table = true}},
  };
  return kRows;
}

}  // namespace

Target target_of(const spec::Case& c) {
  for (const Row& row : rows()) {
    if (row.op != c.op || !c.variant.starts_with(row.variant) || !c.name.starts_with(row.name)) continue;
    Target target = row.target;
    if (c.op == "matmul" && c.dtype == DType::bf16 && !target.cold && has_bf16_dot()) target.ceilings = {Ceiling::bf16_dot};
    return target;
  }
  return {};
}

}  // namespace weft::bench
