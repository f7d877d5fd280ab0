// Rewrites preprocessed Metal Shading Language to C++ for clang.
//
// It does six things and interprets nothing else:
//   attributes           [[...]] are removed; those of kernels and their parameters are recorded
//   kernels              get an entry that binds [[buffer(n)]] and the built-in parameters; so do explicit instantiations
//                        of kernel templates, under their [[host_name]]
//   function constants   become variables that are set when the text is loaded; so do constants that depend on them
//   threadgroup variables become references into the memory of the running group
//   overloads            that differ only in address spaces, and have the same body, are merged
//   address spaces       become empty words (shim/types.h)
#pragma once

#include <string>

namespace weft::metal::sim {

// Throws `unsupported` with file and line if the text cannot be parsed.
std::string rewrite(const std::string& preprocessed);

}  // namespace weft::metal::sim
