// Prints a message to the user on stderr, beside a command's output.
#pragma once

#include <cstdio>
#include <string>

namespace weft::cli {

inline void notice(const std::string& text) { std::fprintf(stderr, "weft: %s\n", text.c_str()); }

}  // namespace weft::cli
