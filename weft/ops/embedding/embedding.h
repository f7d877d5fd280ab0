// Rows of a table by id:
//
//   y[p] = w[ids[p]]          dw[i] = sum over the positions p with ids[p] = i of dy[p]
//
// Order of that sum: positions ascending in chunks of 256 (the chunk's first row, plus its second, ...), then the
// chunks in order, then added to dw's old value when accumulating. w, y and dy are f32 or bf16, dw is f32, ids are i32 or
// u32. An id outside [0, V) is a fault that names it; nothing is read or written then.
#pragma once

#include <algorithm>
#include <optional>

#include "weft/ops/operands.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct EmbeddingArgs {
  static constexpr const char* kOp = "embedding";
  View w, ids;
  MutView y;

  static constexpr auto operands() {
    using namespace operand;
    using A = EmbeddingArgs;
    return std::array{in("w", &A::w, "V C", kFloats).rows().uncounted(), in("ids", &A::ids, "...", kIds),
                      out("y", &A::y, "... C", like("w")).rows()};
  }
};

struct EmbeddingBackwardArgs {
  static constexpr const char* kOp = "embedding_backward";
  View dy, ids;
  MutView dw;
  bool accumulate;  // dw += instead of =; otherwise rows without an occurrence become zero

  static constexpr auto operands() {
    using namespace operand;
    using A = EmbeddingBackwardArgs;
    return std::array{in("dy", &A::dy, "... C", kFloats).rows(), in("ids", &A::ids, "...", kIds),
                      out("dw", &A::dw, "V C", DType::f32).rows()};
  }
};

void embedding(Stream& stream, const EmbeddingArgs& args);
void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args);
// At most one row of the table is read for each position.
inline Cost cost(const EmbeddingArgs& a) { return {operand_bytes(a) + std::min(bytes_of(a.w), bytes_of(a.y)), 0}; }
inline Cost cost(const EmbeddingBackwardArgs& a) { return {operand_bytes(a) + (a.accumulate ? bytes_of(a.dw) : 0), double(a.dy.numel())}; }

// Differentiable in w; dw is f32. The row `padding`, where it is one of the table's, is read but learns nothing here: its
// gradient stays as it was.
Tensor embedding(const Tensor& w, const Tensor& ids, std::optional<int64_t> padding = {});

}  // namespace weft
