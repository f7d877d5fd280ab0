// Compiles a kernel source with clang into a shared object, cached on disk.
//
// The cache is $XDG_CACHE_HOME/weft/metal-sim (or ~/.cache/weft/metal-sim; a folder below the temporary one if neither exists): one file
// per source, compiler, headers and flags (weft/io/file_cache.h), at most WEFT_METAL_SIM_CACHE_MIB (1024) MiB of them.
// WEFT_METAL_SIM_CLANG selects another compiler than the one found when Weft was built.
#pragma once

#include <string>

namespace weft::metal::sim {

enum class Build {
  plain,       // contraction as written
  contracted,  // a * b + c may become an FMA, as with Apple's compiler
  checked,     // every memory access goes through the simulator
  counted,     // the same, optimised like a plain build
};

// The path of the shared object. Throws `unsupported` with the compiler's message.
std::string compile(const std::string& text, const std::string& name, Build build);

}  // namespace weft::metal::sim
