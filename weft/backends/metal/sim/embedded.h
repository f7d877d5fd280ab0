// The headers of shim/, embedded in the library.
#pragma once

#include <vector>

namespace weft::metal::sim {

struct EmbeddedFile {
  const char* name;
  const char* text;
};

// Generated at build time (embed.cmake).
extern const std::vector<EmbeddedFile> kShim;
extern const char* const kRewriter;  // hash of the rewriter's code

}  // namespace weft::metal::sim
