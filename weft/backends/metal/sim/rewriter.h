// Metal shading language, preprocessed, becomes C++ that clang compiles.
//
// Six things are done, and nothing else is understood of the text:
//   attributes           [[...]] are taken out; those of kernels and their parameters are remembered
//   kernels              get an entry that binds [[buffer(n)]] and the built-in parameters; so do explicit instantiations
//                        of kernel templates, under their [[host_name]]
//   function constants   become variables that are set when the text is loaded; so do constants that depend on them
//   threadgroup variables become references into the memory of the group that runs
//   overloads            that differ in address spaces alone, and have one body, become one
//   address spaces       become words that mean nothing (shim/types.h)
#pragma once

#include <string>

namespace weft::metal::sim {

// Throws `unsupported` with file and line where the text cannot be understood.
std::string rewrite(const std::string& preprocessed);

}  // namespace weft::metal::sim
