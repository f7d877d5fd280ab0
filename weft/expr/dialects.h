// What differs between the languages that emit() writes: the spelling, not the structure.
#pragma once

#include <vector>

#include "weft/expr/emit.h"

namespace weft::expr {

struct Spelling {
  const char* name;      // in the first comment
  const char* prologue;  // before everything
  const char* f32_type;  // element types, and how each is loaded and stored
  const char* f32_access;
  const char* bf16_type;
  const char* bf16_access;
  const char* f16_type;
  const char* f16_access;
  const char* vectors;           // load and store of a vector; null where there is none
  const char* integer;           // 64 bits
  const char* small;             // 32 bits, unsigned
  const char* function;          // qualifiers of a helper
  const char* kernel;            // qualifiers of a kernel
  const char* reference;         // to a local float
  const char* from;              // address space of what inputs point to
  const char* to;                //   and outputs
  const char* uniform;           // address space of Layout and Parameters; null where they are passed by value
  bool bindings;                 // arguments carry [[buffer(n)]]
  const char* position;          // further arguments that say which thread this is
  const char* lane;              //   and, where lanes share what they read, which lane; null where they do not
  const char* start_together;    // as start, for lanes that share: all go round while one has a chunk that is `inside`
  const char* start;             // lines that define `chunk` and open a block: a loop over this thread's chunks, or its only one
  const char* start_of_several;  // the same where a thread takes $ chunks, a block's width apart; null where none does
  const char* filling;     // before the name of a kernel of several chunks whose vectors leave room for as many threads as there can be
  const char* next;        // done with the chunk
  const char* unroll;      // before a loop of constant length
  const char* one_by_one;  // before a loop that is seldom run
  const char* bits;        // a float from its bits: "as_type<float>($)"
};

const Spelling& spelling(Dialect dialect);

// An op on operands $a, $b, $c: "expf($a)".
const char* spelling(Dialect dialect, Op op);

// The same where a vector is computed straight through: "log1p_quick($a, rare)" sets `rare` where it cannot be trusted, and the
// vector is then done again, element by element. Null where there is no such form.
const char* quick_spelling(Dialect dialect, Op op);

// Where the quick form of an op can be trusted for |$a| below a limit alone: that limit, else 0. It is for the kernel to look.
float quick_limit(Dialect dialect, Op op);

// The definitions that the spelling of an op needs before use, in order.
std::vector<const char*> helpers(Dialect dialect, Op op);

}  // namespace weft::expr
