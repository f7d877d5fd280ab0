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
  const char* vectors;    // load and store of a vector; null where there is none
  const char* integer;    // 64 bits
  const char* small;      // 32 bits, unsigned
  const char* function;   // qualifiers of a helper
  const char* kernel;     // qualifiers of a kernel
  const char* reference;  // to a local float
  const char* from;       // address space of what inputs point to
  const char* to;         //   and outputs
  const char* uniform;    // address space of Layout and Parameters; null where they are passed by value
  bool bindings;          // arguments carry [[buffer(n)]]
  const char* position;   // further arguments that say which thread this is
  const char* start;      // a line defining `first` and `step`: this thread, and how many there are
  const char* unroll;     // before a loop of constant length
  const char* bits;       // a float from its bits: "as_type<float>($)"
};

const Spelling& spelling(Dialect dialect);

// An op on operands $a, $b, $c: "expf($a)".
const char* spelling(Dialect dialect, Op op);

// The definitions that the spelling of an op needs before use, in order.
std::vector<const char*> helpers(Dialect dialect, Op op);

}  // namespace weft::expr
