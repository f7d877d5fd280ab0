// Integers as a person writes them. The parser alone would take -1 for the largest number an unsigned option can hold, what
// is too large for the largest there is, and 010 for 8.
#pragma once

#include <CLI/CLI.hpp>

namespace weft::cli {

// Adds the check to every option of `app` and of its commands that takes integers.
void check_integers(CLI::App& app);

}  // namespace weft::cli
