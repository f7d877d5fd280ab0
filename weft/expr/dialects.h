// The differences between the languages that emit() writes: spelling, not structure.
#pragma once

#include <vector>

#include "weft/expr/emit.h"

namespace weft::expr {

struct Spelling {
  const char* name;      // for the first comment
  const char* prologue;  // start of the text
  const char* f32_type;  // element types, and their load and store functions
  const char* f32_access;
  const char* bf16_type;
  const char* bf16_access;
  const char* f16_type;
  const char* f16_access;
  const char* vectors;           // load and store of a vector; null: none
  const char* integer;           // 64 bits
  const char* small;             // 32 bits, unsigned
  const char* function;          // qualifiers of a helper
  const char* kernel;            // qualifiers of a kernel
  const char* reference;         // to a local float
  const char* from;              // address space of inputs
  const char* to;                // address space of outputs
  const char* uniform;           // address space of Layout and Parameters; null: passed by value
  bool bindings;                 // arguments carry [[buffer(n)]]
  const char* position;          // further arguments with the thread's position
  const char* lane;              // and with its lane, if lanes share loads; null: they do not
  const char* start_together;    // as start, for lanes that share: all iterate while one has a chunk `inside`
  const char* start;             // lines that define `chunk` and open a block: a loop over this thread's chunks, or its only one
  const char* start_of_several;  // the same for a thread with $ chunks, a block's width apart; null: not used
  const char* filling;           // qualifier of a kernel of several chunks whose registers allow full occupancy
  const char* next;              // statement that ends a chunk
  const char* unroll;            // before a loop of constant length
  const char* one_by_one;        // before a loop that rarely runs
  const char* bits;              // a float from its bits: "as_type<float>($)"
};

const Spelling& spelling(Dialect dialect);

// Spelling of an op on operands $a, $b, $c: "expf($a)".
const char* spelling(Dialect dialect, Op op);

// The same for branch-free vectors: "log1p_quick($a, rare)" sets `rare` if its result is not accurate, and the vector is then computed
// again element by element. Null if there is no such form.
const char* quick_spelling(Dialect dialect, Op op);

// The limit of |$a| below which the quick form of an op is accurate, if it depends on that only; else 0. The kernel tests it.
float quick_limit(Dialect dialect, Op op);

// The definitions that the spelling of an op needs, in order.
std::vector<const char*> helpers(Dialect dialect, Op op);

}  // namespace weft::expr
