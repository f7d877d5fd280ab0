// Rows of tokens by expert: token t goes to the experts ids[t], one row each. The sort is stable: by expert, then by token.
//
//   starts[e] = the number of ids below e: expert e has the sorted rows starts[e] to starts[e + 1]
//   rows[i]   = the place in ids (t k + j) of the sorted row i
//   places    = its inverse: places[rows[i]] = i
//
// The counts stay on the device. No gradient: these are integers.
#pragma once

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct ExpertOrderArgs {
  static constexpr const char* kOp = "expert_order";
  View ids;                      // in [0, E): another one is a fault
  MutView starts, rows, places;  // [E + 1]; as many as there are ids, both

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
