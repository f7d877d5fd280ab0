// Compiles a graph to straight-line instructions of an accumulator machine, which the CPU runs.
//
// The accumulator holds the value of the node computed last, one block of elements wide. An instruction takes its operands from the
// accumulator, from memory (a block of an f32 input, or of a slot with a saved value) or from a scalar that is the same for the whole block
// (a constant, a parameter, the row's value of a column vector). A chain of nodes therefore never leaves the accumulator; a value goes to a
// slot only if it is needed again later, and slots are reused as soon as their value is dead.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "weft/expr/graph.h"

namespace weft::expr {

// Source of an input block: memory of this dtype, or one value for the whole row.
enum class Source : uint8_t { f32, bf16, f16, scalar };

enum class Mode : uint8_t { accumulator, memory, scalar };

enum class Action : uint8_t {
  compute,      // accumulator = op(operands)
  load,         // accumulator = memory block, f32
  load_bf16,    //   the same, widened
  load_f16,     //
  load_scalar,  // accumulator = scalar, in every element
  save,         // slot = accumulator
  store,        // output = accumulator, rounded to the output's dtype
};
inline constexpr int kActions = int(Action::store) + 1;

struct Instruction {
  Action action;
  Op op = Op::input;                            // of compute
  bool minus_product = false, minus_c = false;  // of fma: -(a * b) + c, a * b - c, -(a * b) - c; negation is free there
  bool times = false;                           // of a unary op: multiply the result by memory operand 1, as in x sigmoid(x)
  Mode mode[3] = {};
  // Memory: inputs first, then outputs, then slots. Scalars: an index into Program::scalars.
  uint16_t operand[3] = {};
};

// A value that is the same for a whole row.
struct Scalar {
  enum class From : uint8_t { constant, parameter, input } from;
  int index = 0;    // of the parameter or input
  float value = 0;  // of the constant
};

struct Program {
  std::vector<Instruction> code;
  std::vector<Scalar> scalars;
  int inputs = 0, outputs = 0, slots = 0;
};

// The forms of an op that the machine has; compile() emits only these. Unary: accumulator or memory. pow and atan2, whose code is long: at
// least one operand in the accumulator. Others: any except all scalars.
constexpr bool has_form(Op op, Mode a, Mode b, Mode c) {
  if (op < Op::neg) return false;
  if (op < Op::add) return a != Mode::scalar && b == Mode::accumulator && c == Mode::accumulator;
  if (op == Op::fma || op == Op::select) return a != Mode::scalar || b != Mode::scalar || c != Mode::scalar;
  if (c != Mode::accumulator) return false;
  if (op == Op::pow || op == Op::atan2) return a == Mode::accumulator || b == Mode::accumulator;
  return a != Mode::scalar || b != Mode::scalar;
}

// `sources` has one entry per input of the graph. With `stores_last` every output is stored after the last read of every input, as needed
// if several outputs alias inputs. Throws on a graph without outputs or inputs, or too large for 16-bit operands.
Program compile(const Graph& graph, std::span<const Source> sources, bool stores_last = false);

}  // namespace weft::expr
