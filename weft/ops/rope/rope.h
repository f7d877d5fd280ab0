// Rotary position embedding (Su et al., 2021): token t of sequence b stands at position p = start[b] + t, or at positions[t], and each pair
// of its first R elements is turned by the angle of that position (rope_table.h); the other D - R are copied.
//
//   y1 = x1 cos - x2 sin          half_split:  (x1, x2) = (x[i], x[i + R / 2])      (Llama in Hugging Face's layout)
//   y2 = x2 cos + x1 sin          interleaved: (x1, x2) = (x[2 i], x[2 i + 1])      (the paper's)
//
// The inverse turns by the negative angle; a rotation is orthogonal, so that is also the backward.
#pragma once

#include "weft/ops/operands.h"
#include "weft/ops/rope/rope_table.h"
#include "weft/tensor/tensor.h"

namespace weft {

enum class RopePairs { half_split, interleaved };

struct RopeArgs {
  static constexpr const char* kOp = "rope";
  View x, cos, sin;     // cos and sin: a frequency F for each pair, at each position P
  View start;           // [B] or [1]: the position of each sequence's first token; absent: 0
  MutView y;            // may be x itself
  View positions = {};  // the position of each token, for B = 1 and instead of start: packed documents (weft/ops/document_positions)
  RopePairs pairs = RopePairs::half_split;
  bool inverse = false;

  static constexpr auto operands() {
    using namespace operand;
    using A = RopeArgs;
    return std::array{in("x", &A::x, "B T H D", kFloats).columns(),      in("cos", &A::cos, "P F", DType::f32).uncounted(),
                      in("sin", &A::sin, "P F", DType::f32).uncounted(), in("start", &A::start, "", DType::i32).optional().uncounted(),
                      out("y", &A::y, "B T H D", like("x")).columns(),   in("positions", &A::positions, "T", DType::i32).optional()};
  }
};

// A checked launch into memory the caller owns. A position outside the table is a fault raised by the stream.
void rope(Stream& stream, const RopeArgs& args);
Cost cost(const RopeArgs& args);

struct RopeOptions {
  Tensor start = {};      // undefined: position 0
  Tensor positions = {};  // undefined: as start says
  RopePairs pairs = RopePairs::half_split;
};

// y = rope(x), x [B, T, H, D]. An undefined start means position 0.
Tensor rope(const Tensor& x, const RopeTable& table, const Tensor& start, RopePairs pairs = RopePairs::half_split);
Tensor rope(const Tensor& x, const RopeTable& table, const RopeOptions& options);

// The same for the first `heads` of x's heads, in x's memory; the others stay. x's old values are gone, so nothing else may need them:
// backward() raises an error if an op had kept them. The gradient is turned in its memory, too.
Tensor rope_in_place(const Tensor& x, int64_t heads, const RopeTable& table, const RopeOptions& options);

}  // namespace weft
