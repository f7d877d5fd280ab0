// Sorts (token, expert) pairs by expert: token t has one row for each of its experts ids[t]. The sort is stable: by expert, then by token.
//
//   starts[e] = the number of ids below e: the sorted rows of expert e are starts[e] to starts[e + 1] - 1
//   rows[i]   = index in ids (t k + j) of sorted row i
//   places    = the inverse: places[rows[i]] = i
//
// The counts stay on the device. No gradient: the results are integers.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct ExpertOrderArgs {
  static constexpr const char* kOp = "expert_order";
  View ids;                      // [T, k], in [0, E): any other value is a fault
  MutView starts, rows, places;  // [E + 1]; [T k]; [T, k]

  static constexpr auto operands() {
    using namespace operand;
    using A = ExpertOrderArgs;
    return std::array{in("ids", &A::ids, "...", DType::i32), out("starts", &A::starts, "S", DType::i32),
                      out("rows", &A::rows, "(...)", DType::i32), out("places", &A::places, "...", DType::i32)};
  }
};

void expert_order(Stream& stream, const ExpertOrderArgs& args);
inline Cost cost(const ExpertOrderArgs& a) { return {operand_bytes(a), 0}; }

struct ExpertOrder {
  Tensor starts, rows, places;
};
ExpertOrder expert_order(const Tensor& ids, int64_t experts);

}  // namespace weft
