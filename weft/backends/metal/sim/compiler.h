// A kernel text compiled by clang into a shared object, kept on disk.
//
// The cache is $XDG_CACHE_HOME/weft/metal-sim (or ~/.cache/weft/metal-sim; a folder of its own under the temporary one where
// neither exists): one file per text, compiler, headers and flags (weft/io/file_cache.h), at most WEFT_METAL_SIM_CACHE_MIB
// (1024) of them. WEFT_METAL_SIM_CLANG names another compiler than the one found when Weft was built.
#pragma once

#include <string>

namespace weft::metal::sim {

enum class Build {
  plain,       // contraction as written
  contracted,  // a * b + c may become one operation, as Apple's compiler may make it
  checked,     // every access of memory goes through the simulator
  counted,     // so too, but optimized as far as a plain build
};

// The shared object's path. Throws `unsupported` with the compiler's own words.
std::string compile(const std::string& text, const std::string& name, Build build);

}  // namespace weft::metal::sim
