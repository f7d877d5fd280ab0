// Rows of a table by id:
//
//   y[p] = w[ids[p]]          dw[i] = sum over the positions p with ids[p] = i of dy[p]
//
// Order of that sum: positions ascending in chunks of 256 (the chunk's first row, plus its second, ...), then the
// chunks in order, then added to what dw held when accumulating. w, y and dy are f32 or bf16, dw is f32, ids are i32 or
// u32. An id outside [0, V) is a fault that names it; nothing is read or written then.
#pragma once

#include <optional>

#include "weft/ops/contract.h"
#include "weft/tensor/tensor.h"

namespace weft {

struct EmbeddingArgs {
  static constexpr const char* kOp = "embedding";
  View w;     // [V, C]
  View ids;   // any shape, contiguous
  MutView y;  // [ids..., C], w's dtype
};

struct EmbeddingBackwardArgs {
  static constexpr const char* kOp = "embedding_backward";
  View dy;          // [ids..., C]
  View ids;         // any shape, contiguous
  MutView dw;       // [V, C], f32
  bool accumulate;  // dw += instead of =; otherwise rows without an occurrence become zero
};

void embedding(Stream& stream, const EmbeddingArgs& args);
void embedding_backward(Stream& stream, const EmbeddingBackwardArgs& args);
Cost cost(const EmbeddingArgs& args);
Cost cost(const EmbeddingBackwardArgs& args);

// Differentiable in w; dw is f32. The row `padding`, where it is one of the table's, is read but learns nothing here: its
// gradient stays as it was.
Tensor embedding(const Tensor& w, const Tensor& ids, std::optional<int64_t> padding = {});

}  // namespace weft
