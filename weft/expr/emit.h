// Emits a graph as the source text of one kernel: CUDA, Metal, or (Dialect::c) plain C++ to read. The same graph and signature always give
// the same text, so it can serve as a cache key and be compared with a file.
//
// The elements form rows of `columns`, and a row consists of chunks of vector_width(); a flat tensor is one row. Arguments of the kernel,
// in order: one pointer per input (null if the graph does not read it), one pointer per output, a Layout (below), and, if the graph has
// parameters, a struct of that many floats. In Metal: buffers 0, 1, 2, ...
// Arithmetic is f32 throughout; bf16 and f16 round to nearest even at stores. Offsets are 64-bit.
// In place: an output may alias an input of the same dtype and layout exactly; each element is read before it is written. No other overlap.
// Contraction is explicit in the graph: compile CUDA with --fmad=false, and Metal with safe maths.
// Grid: any, along x; threads stride over the chunks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/dtype.h"
#include "weft/device/device.h"
#include "weft/expr/graph.h"

namespace weft::expr {

struct Operand {
  DType dtype = DType::f32;  // f32, bf16 or f16
  bool along = true;         // varies along a row; else it is one value per row

  bool operator==(const Operand&) const = default;
};

struct Signature {
  std::vector<Operand> inputs;
  std::vector<DType> outputs;  // these vary along a row
  int axes = 0;                // number of axes that index rows; 0: one row

  bool operator==(const Signature&) const = default;
};

// Elements per chunk, which is moved 16 bytes at a time: 8 if an operand has 2 bytes, else 4; 1 in a dialect that leaves vectorisation to
// the compiler.
int vector_width(const Signature& signature, Dialect dialect);

// Chunks per thread, a block's width of chunks apart: sixteen elements' worth on CUDA if a flat expression has so many functions that it is
// bound by arithmetic, not memory, so that they share the surrounding work; else 1, or as many as are left for it.
int chunks_per_thread(const Graph& graph, const Signature& signature, Dialect dialect);

// The words of a kernel's Layout, in order: chunks in all, chunks of a row, columns, alignment (1: every row of every operand that varies
// along it starts at a multiple of 16 bytes; 2: and the operands are larger than the caches); then the extent of each axis, and for each
// operand (inputs, then outputs) its stride along each axis, in elements. With axes there must be fewer than 2^32 chunks. In Metal, with
// axes, a thread has a run of rows along the last axis, reads values that do not vary along it once, and the last word is the length of a
// run; elsewhere run = 0.
struct Layout {
  int64_t columns = 0;
  bool aligned = false, past_caches = false;
  std::vector<int64_t> extent;               // per axis, the last varies fastest
  std::vector<std::vector<int64_t>> stride;  // per operand, per axis
  int64_t run = 0;
};
std::vector<int64_t> words(const Layout& layout, int vector_width);

std::string emit(const Graph& graph, const Signature& signature, Dialect dialect, std::string_view kernel_name = "weft_elementwise");

}  // namespace weft::expr
