// The headers under shim/, inside of the library.
#pragma once

#include <vector>

namespace weft::metal::sim {

struct EmbeddedFile {
  const char* name;
  const char* text;
};

// Generated when Weft is built (embed.cmake).
extern const std::vector<EmbeddedFile> kShim;
extern const char* const kRewriter;  // changes with the code of the rewriter

}  // namespace weft::metal::sim
