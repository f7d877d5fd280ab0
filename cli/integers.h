// Strict integer options. The parser alone would accept -1 for the largest unsigned value, clamp values that overflow, and read 010 as
// octal 8.
#pragma once

#include <CLI/CLI.hpp>

namespace weft::cli {

// Adds the check to every integer option of `app` and of its commands.
void check_integers(CLI::App& app);

}  // namespace weft::cli
