// A graph as the source text of one kernel: CUDA, Metal, or (Dialect::c) plain C++ to read. The same graph and signature always give the
// same text, so the text can be a cache key and can be compared with a file.
//
// The elements form `rows` rows of `columns`; a flat tensor is one row. Arguments of the kernel, in order:
//   one pointer per input (null where the graph does not read it), one pointer per output, an Extent, and, where the
//   graph has parameters, a struct of that many floats. In Metal these are buffers 0, 1, 2, ...
// Arithmetic is f32 throughout; bf16 and f16 round to nearest even at stores. Offsets are 64-bit.
// In place: an output may lie exactly where a full input of the same dtype lies; each element is read before it is
// written. No other overlap.
// Contraction is written out in the graph: compile CUDA with --fmad=false, and Metal with safe maths.
// Grid: any; x strides over the columns, y over the rows. Threads of a block along x only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/device/device.h"
#include "weft/expr/graph.h"

namespace weft::expr {

// What an input gives to element (row, column).
enum class Broadcast : uint8_t {
  full,    // its element (row, column)
  row,     // a row vector [columns]: element column
  column,  // a column vector [rows]: element row
  scalar,  // one value
};

struct Operand {
  DType dtype = DType::f32;  // f32, bf16 or f16
  Broadcast broadcast = Broadcast::full;

  bool operator==(const Operand&) const = default;
};

struct Signature {
  std::vector<Operand> inputs;
  std::vector<DType> outputs;  // always full

  bool operator==(const Signature&) const = default;
};

// What the kernel receives after the pointers. The first `vectors` columns of each row are moved 16 bytes at a time:
// a multiple of vector_width(), and 0 where a full or row operand or a row of it does not start at 16 bytes.
struct Extent {
  int64_t rows = 1, columns = 0, vectors = 0;
};
static_assert(sizeof(Extent) == 24);

// Elements per vector: 8 where an operand has 2 bytes, else 4; 1 in a dialect that leaves vectors to the compiler.
int vector_width(const Signature& signature, Dialect dialect);

// How many columns to say are in vectors, given whether every pointer of a full or row operand is 16-byte aligned.
int64_t vector_columns(const Signature& signature, Dialect dialect, int64_t rows, int64_t columns, bool aligned);

std::string emit(const Graph& graph, const Signature& signature, Dialect dialect, std::string_view kernel_name = "weft_elementwise");

}  // namespace weft::expr
